import { Button, SimpleGrid, Skeleton, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { HardDrive, Plus } from "lucide-react";
import { useState } from "react";
import { drives, jobs } from "../../api/queries";
import type { SchemaDrive as Drive } from "../../api/schema";
import { bytes, count, percent } from "../../format";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { May } from "../../parts/may";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { DriveDetails, HealthCell } from "./drive";
import { AddDrive, EvacuateDrive, ReplaceDrive } from "./forms";
import { ProtectionPanel } from "./protection";
import { Shelf, stateOf } from "./shelf";

type Task = { verb: "show" | "evacuate" | "replace"; drive: Drive };

/** Drives with their state, health and actions. */
export function DrivesPage() {
  const { data, error } = useQuery(drives());
  const running = useQuery(jobs()).data?.filter((it) => it.state === "running") ?? [];
  const [adding, setAdding] = useState(false);
  const [task, setTask] = useState<Task>();
  const close = () => setTask(undefined);
  return (
    <Page
      title="Drives"
      actions={
        <May role="admin">
          <Button leftSection={<Plus size={16} aria-hidden />} onClick={() => setAdding(true)}>
            Add drive
          </Button>
        </May>
      }
    >
      <Stack gap="md">
        <ProblemAlert error={error} />
        <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
          {data ? (
            <Panel title="Shelf">
              <Shelf drives={data} jobs={running} />
            </Panel>
          ) : (
            !error && <Skeleton height={220} />
          )}
          <ProtectionPanel jobs={running} />
        </SimpleGrid>
        <Panel flush>
          <DataTable label="Drives" noun="drive" rows={data} columns={columns(setTask)} id={(it) => it.id} empty={<Empty icon={HardDrive} title="No drives" text="Add a drive to store data." />} />
        </Panel>
      </Stack>
      <AddDrive opened={adding} onClose={() => setAdding(false)} />
      {task?.verb === "show" && <DriveDetails drive={data?.find((it) => it.id === task.drive.id) ?? task.drive} onClose={close} />}
      {task?.verb === "evacuate" && <EvacuateDrive drive={task.drive} onClose={close} />}
      {task?.verb === "replace" && <ReplaceDrive drive={task.drive} onClose={close} />}
    </Page>
  );
}

const columns = (choose: (task: Task) => void): Column<Drive>[] => [
  { name: "Slot", key: (it) => it.slot, cell: (it) => <span className="number">{it.slot}</span> },
  { name: "Drive", key: (it) => it.path ?? "", cell: (it) => <span style={{ display: "inline-block", minWidth: 180, overflowWrap: "anywhere" }}>{it.path ?? "missing"}</span>, wide: true },
  { name: "State", key: (it) => it.state, cell: (it) => <Dot {...stateOf(it)} /> },
  { name: "Health", key: (it) => it.health.used_percent ?? -1, cell: (it) => <HealthCell drive={it} />, wide: true },
  { name: "Used", key: (it) => it.used / it.size, cell: (it) => `${percent(it.used / it.size)} of ${bytes(it.size)}`, right: true },
  { name: "Errors", key: (it) => it.read_errors + it.bad_pages, cell: (it) => <Errors drive={it} />, right: true, wide: "xl" },
  {
    name: "",
    right: true,
    cell: (drive) => (
      <>
        <Button variant="subtle" color="gray" size="compact-sm" aria-label={`Details of the drive in slot ${drive.slot}`} onClick={() => choose({ verb: "show", drive })}>
          Details
        </Button>
        <May role="admin">
          {drive.state === "online" && (
            <Button variant="subtle" color="gray" size="compact-sm" aria-label={`Evacuate the drive in slot ${drive.slot}`} onClick={() => choose({ verb: "evacuate", drive })}>
              Evacuate
            </Button>
          )}
          <Button variant="subtle" color="gray" size="compact-sm" aria-label={`Replace the drive in slot ${drive.slot}`} onClick={() => choose({ verb: "replace", drive })}>
            Replace
          </Button>
        </May>
      </>
    ),
  },
];

/** Errors of a drive since the array was started. */
function Errors({ drive: { read_errors, bad_pages, slow_reads } }: { drive: Drive }) {
  const all = read_errors + bad_pages;
  const title = `${count(read_errors)} failed reads, ${count(bad_pages)} bad pages, ${count(slow_reads)} slow reads`;
  return all + slow_reads === 0 ? <span className="quiet">none</span> : <span title={title}>{all > 0 ? count(all) : `${count(slow_reads)} slow`}</span>;
}

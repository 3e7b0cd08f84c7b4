import { Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { array, drives, protection } from "../../api/queries";
import type { SchemaDrive as Drive } from "../../api/schema";
import { bytes, plural } from "../../format";
import { May } from "../../parts/may";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { protectionText } from "../dashboard/state";
import { AddDrive } from "../drives/forms";
import { Step } from "./step";

const COLUMNS: Column<Drive>[] = [
  { name: "Slot", key: (it) => it.slot, cell: (it) => <span className="number">{it.slot}</span> },
  { name: "Drive", key: (it) => it.path ?? "", cell: (it) => <Identity drive={it} /> },
  { name: "Size", key: (it) => it.size, cell: (it) => bytes(it.size), right: true },
];

function Identity({ drive: { path, health } }: { drive: Drive }) {
  const about = [health.model, health.serial && `serial number ${health.serial}`].filter(Boolean).join(", ");
  return (
    <div style={{ overflowWrap: "anywhere" }}>
      {about && <div>{about}</div>}
      <span className={about ? "quiet" : undefined}>{path ?? "missing"}</span>
    </div>
  );
}

/** The array's drives, and a choice of more drives of the server. */
export function Found({ onNext }: { onNext: () => void }) {
  const { data, error } = useQuery(array());
  const shelf = useQuery(drives());
  const shield = useQuery(protection()).data;
  const [adding, setAdding] = useState(false);
  return (
    <Step title="Drives" forward={<Button onClick={onNext}>Next</Button>}>
      <ProblemAlert error={error ?? shelf.error} />
      {!(data && shelf.data) && !(error ?? shelf.error) && <Skeleton height={90} />}
      {data && shelf.data && (
        <Stack gap="md">
          <DataTable label="Drives of the array" noun="drive" rows={shelf.data} columns={COLUMNS} id={(it) => it.id} pageSize={12} empty={null} />
          <Group justify="space-between" align="flex-start" gap="sm">
            <Text size="sm" style={{ flex: "1 1 300px" }}>
              {plural(shelf.data.length, "drive")} with <b className="number">{bytes(data.space.total)}</b> usable, after what protects against the loss of drives. {shield && protectionText(shield).text} Volumes may be promised more: they take space only for what is written.
            </Text>
            <May role="admin">
              <Button variant="default" leftSection={<Plus size={16} aria-hidden />} onClick={() => setAdding(true)}>
                Add drive
              </Button>
            </May>
          </Group>
        </Stack>
      )}
      <AddDrive opened={adding} onClose={() => setAdding(false)} />
    </Step>
  );
}

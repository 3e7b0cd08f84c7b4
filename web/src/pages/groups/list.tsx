import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Boxes, Plus } from "lucide-react";
import { groups } from "../../api/queries";
import type { SchemaGroup as Group } from "../../api/schema";
import { bytes, count } from "../../format";
import { Empty } from "../../parts/empty";
import { May } from "../../parts/may";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { RowLink } from "../../parts/row-link";
import { DataTable, type Column } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { GroupForm } from "./forms";
import { QuotaBar } from "./quota";

const COLUMNS: Column<Group>[] = [
  {
    name: "Name",
    key: (it) => it.name,
    cell: (it) => <RowLink place="groups" name={it.name} />,
  },
  { name: "Volumes", key: (it) => it.volumes.length, cell: (it) => count(it.volumes.length), right: true },
  { name: "Provisioned", key: (it) => it.provisioned, cell: (it) => bytes(it.provisioned), right: true, wide: true },
  { name: "Mapped", key: (it) => it.mapped, cell: (it) => bytes(it.mapped), right: true },
  { name: "Quota", key: (it) => it.mapped / (it.hard_quota ?? it.soft_quota ?? Infinity), cell: (it) => <QuotaBar group={it} />, wide: true },
];

export function GroupsPage() {
  const { data, error } = useQuery(groups());
  const create = useOpened("new");
  const button = (
    <May>
      <Button leftSection={<Plus size={16} aria-hidden />} onClick={create.open}>
        Create group
      </Button>
    </May>
  );
  return (
    <Page title="Volume groups" actions={data?.length ? button : undefined}>
      {data || !error ? (
        <Panel flush>
          <DataTable
            label="Volume groups"
            noun="group"
            rows={data}
            columns={COLUMNS}
            id={(it) => it.name}
            text={(it) => `${it.name} ${it.volumes.join(" ")}`}
            empty={
              <Empty
                icon={Boxes}
                title="No volume groups yet"
                text="Volumes of a group have consistent snapshots, and share quotas and QoS limits."
                action={button}
              />
            }
          />
        </Panel>
      ) : (
        <ProblemAlert error={error} />
      )}
      <GroupForm opened={create.opened} onClose={create.close} />
    </Page>
  );
}

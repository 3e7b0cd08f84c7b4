import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Network, Plus } from "lucide-react";
import { hostGroups } from "../../api/queries";
import type { SchemaHostGroup as HostGroup } from "../../api/schema";
import { count } from "../../format";
import { Empty } from "../../parts/empty";
import { May } from "../../parts/may";
import { Names } from "../../parts/names";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { RowLink } from "../../parts/row-link";
import { DataTable, type Column } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { HostGroupForm } from "./forms";

const COLUMNS: Column<HostGroup>[] = [
  {
    name: "Name",
    key: (it) => it.name,
    cell: (it) => <RowLink place="host-groups" name={it.name} />,
  },
  { name: "Hosts", key: (it) => it.hosts.length, cell: (it) => <Names names={it.hosts} noun="host" /> },
  { name: "Volumes", key: (it) => it.connections.length, cell: (it) => count(it.connections.length), right: true },
];

export function HostGroupsPage() {
  const { data, error } = useQuery(hostGroups());
  const create = useOpened("new");
  const button = (
    <May>
      <Button leftSection={<Plus size={16} aria-hidden />} onClick={create.open}>
        Create group
      </Button>
    </May>
  );
  return (
    <Page title="Host groups" actions={data?.length ? button : undefined}>
      {data || !error ? (
        <Panel flush>
          <DataTable
            label="Host groups"
            noun="group"
            rows={data}
            columns={COLUMNS}
            id={(it) => it.name}
            text={(it) => `${it.name} ${it.hosts.join(" ")} ${it.connections.map((seen) => seen.volume).join(" ")}`}
            empty={
              <Empty
                icon={Network}
                title="No host groups yet"
                text="All hosts of a host group, such as a cluster, are connected to its volumes with the same LUNs."
                action={button}
              />
            }
          />
        </Panel>
      ) : (
        <ProblemAlert error={error} />
      )}
      <HostGroupForm opened={create.opened} onClose={create.close} />
    </Page>
  );
}

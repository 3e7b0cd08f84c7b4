import { useQuery } from "@tanstack/react-query";
import { Network } from "lucide-react";
import { hostGroups } from "../../api/queries";
import type { SchemaHostGroup as HostGroup } from "../../api/schema";
import { count } from "../../format";
import { LABEL_FILTER } from "../../parts/labels";
import { Names } from "../../parts/names";
import { RowLink } from "../../parts/row-link";
import type { Column } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { HostGroupForm } from "./forms";
import { NounList } from "../../parts/noun-list";

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
  const create = useOpened("new");
  return (
    <NounList
      title="Host groups"
      noun="group"
      list={useQuery(hostGroups())}
      columns={COLUMNS}
      id={(it) => it.name}
      filters={[LABEL_FILTER]}
      text={(it) => `${it.name} ${it.hosts.join(" ")} ${it.connections.map((seen) => seen.volume).join(" ")}`}
      create={{ label: "Create group", onClick: create.open }}
      empty={{ icon: Network, title: "No host groups yet", text: "All hosts of a host group, such as a cluster, are connected to its volumes with the same LUNs." }}
    >
      <HostGroupForm opened={create.opened} onClose={create.close} />
    </NounList>
  );
}

import { useQuery } from "@tanstack/react-query";
import { Boxes } from "lucide-react";
import { groups } from "../../api/queries";
import type { SchemaGroup as Group } from "../../api/schema";
import { bytes, count } from "../../format";
import { LABEL_FILTER } from "../../parts/labels";
import { RowLink } from "../../parts/row-link";
import type { Column } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { GroupForm } from "./forms";
import { QuotaBar } from "./quota";
import { NounList } from "../../parts/noun-list";

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
  const create = useOpened("new");
  return (
    <NounList
      title="Volume groups"
      noun="group"
      list={useQuery(groups())}
      columns={COLUMNS}
      id={(it) => it.name}
      filters={[LABEL_FILTER]}
      text={(it) => `${it.name} ${it.volumes.join(" ")}`}
      create={{ label: "Create group", onClick: create.open }}
      empty={{ icon: Boxes, title: "No volume groups yet", text: "Volumes of a group have consistent snapshots, and share quotas and QoS limits." }}
    >
      <GroupForm opened={create.opened} onClose={create.close} />
    </NounList>
  );
}

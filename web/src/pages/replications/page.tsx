import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { ArrowRightLeft } from "lucide-react";
import { replications } from "../../api/queries";
import type { SchemaReplication as Replication } from "../../api/schema";
import { bytes, duration } from "../../format";
import { NounList } from "../../parts/noun-list";
import { RowLink } from "../../parts/row-link";
import type { Column } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { CreateReplication } from "./forms";
import { RemoteArraysPanel } from "./remote-arrays";
import { Lag, StateDot, subject } from "./state";

const COLUMNS: Column<Replication>[] = [
  { name: "Name", key: (it) => it.name, cell: (it) => <RowLink place="replications" name={it.name} /> },
  { name: "State", key: (it) => it.progress.state, cell: (it) => <StateDot of={it} /> },
  { name: "Source", key: subject, cell: (it) => <Subject of={it} />, wide: true },
  { name: "Role", key: (it) => it.role, cell: (it) => (it.role === "source" ? `source, to ${it.remote_array}` : `target, from ${it.remote_array}`), wide: true },
  { name: "RPO", key: (it) => it.rpo_seconds, cell: (it) => <span className="number">{duration(it.rpo_seconds)}</span>, wide: true },
  { name: "Lag", key: (it) => it.progress.lag_seconds ?? -1, down: true, cell: (it) => <Lag of={it} /> },
  { name: "Network", key: (it) => it.progress.network_bytes, down: true, cell: (it) => bytes(it.progress.network_bytes), right: true, wide: "xl" },
];

/** Replications of both roles, and the arrays that are paired with this one. */
export function ReplicationsPage() {
  const list = useQuery(replications());
  const create = useOpened("new");
  return (
    <NounList
      title="Replication"
      noun="replication"
      list={list}
      columns={COLUMNS}
      id={(it) => it.id}
      text={(it) => `${it.name} ${subject(it)} ${it.remote_array}`}
      create={{ label: "Create replication", onClick: create.open }}
      empty={{ icon: ArrowRightLeft, title: "Nothing is replicated yet", text: "A replication protects a volume group or a volume on another array: pair the arrays first." }}
    >
      <RemoteArraysPanel />
      <CreateReplication opened={create.opened} onClose={create.close} />
    </NounList>
  );
}

/** The volume or group; a link if it is on this array. */
function Subject({ of }: { of: Replication }) {
  if (of.role === "target") return <>{subject(of)}</>;
  return (
    <Link className="plain" href={of.group ? `/groups/${encodeURIComponent(of.group)}` : `/volumes/${encodeURIComponent(of.volume ?? "")}`}>
      {subject(of)}
    </Link>
  );
}

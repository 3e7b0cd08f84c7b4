import { Link } from "wouter";
import type { SchemaSnapshot as Snapshot } from "../../api/schema";
import { bytes, count, moment } from "../../format";
import { Dot } from "../../parts/dot";
import { RowLink } from "../../parts/row-link";
import type { Column } from "../../parts/table";

/** Whether the retention lock is still in force. */
const locked = (it: Snapshot) => it.retain_until != null && Date.parse(it.retain_until) > Date.now();

export function Kept({ snapshot }: { snapshot: Snapshot }) {
  if (locked(snapshot) && snapshot.retain_until) return <Dot color="teal" label={`locked until ${moment(snapshot.retain_until)}`} />;
  return snapshot.writable ? <Dot color="orange" label="writable" /> : <span className="quiet">read-only</span>;
}

const name: Column<Snapshot> = {
  name: "Name",
  key: (it) => it.name,
  cell: (it) => <RowLink place="snapshots" name={it.name} />,
};

const source: Column<Snapshot> = {
  name: "Source",
  key: (it) => it.source ?? "",
  cell: (it) =>
    it.source ? (
      <Link className="plain" href={`/volumes/${encodeURIComponent(it.source)}`}>
        {it.source}
      </Link>
    ) : (
      <span className="quiet">a deleted volume</span>
    ),
  wide: true,
};

const taken: Column<Snapshot> = { name: "Taken", key: (it) => Date.parse(it.created), down: true, cell: (it) => <span className="number">{moment(it.created, true)}</span> };
const rest: Column<Snapshot>[] = [
  { name: "Mapped", key: (it) => it.mapped, cell: (it) => bytes(it.mapped), right: true, wide: true },
  { name: "State", key: (it) => it.retain_until ?? "", cell: (it) => <Kept snapshot={it} />, wide: true },
];

export const COLUMNS: Column<Snapshot>[] = [taken, name, source, ...rest, { name: "Connected to", key: (it) => it.connections.length, cell: (it) => count(it.connections.length), right: true, wide: true }];

/** Columns on the page of the volume. */
export const OF_ONE: Column<Snapshot>[] = [taken, name, ...rest];

import { useQuery } from "@tanstack/react-query";
import { Layers } from "lucide-react";
import { replicationPoints } from "../../api/queries";
import type { SchemaReplication as Replication, SchemaReplicationPoint as Point } from "../../api/schema";
import { count, moment } from "../../format";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";

const COLUMNS: Column<Point>[] = [
  { name: "Point", key: (it) => it.number, down: true, cell: (it) => <span className="number">{count(it.number)}</span> },
  { name: "Taken", key: (it) => it.taken, down: true, cell: (it) => <span className="number">{moment(it.taken, true)}</span> },
  { name: "Snapshots", key: (it) => it.snapshots.join(), cell: (it) => (it.snapshots.length > 0 ? <span style={{ overflowWrap: "anywhere" }}>{it.snapshots.join(", ")}</span> : <span className="quiet">–</span>), wide: true },
  { name: "Received", key: (it) => it.received, down: true, cell: (it) => <span className="quiet number">{moment(it.received, true)}</span>, wide: true },
  { name: "Retention lock", key: (it) => it.retain_until ?? "", cell: (it) => (it.retain_until ? <Dot color="teal" label={`until ${moment(it.retain_until)}`} /> : <span className="quiet">none</span>) },
];

/** The points of a target: a failover can use each of them. */
export function PointsPanel({ of: { name } }: { of: Replication }) {
  const { data, error } = useQuery(replicationPoints(name));
  return (
    <Panel title="Points" flush>
      <ProblemAlert error={error} />
      {(data || !error) && <DataTable label="Points" noun="point" rows={data} columns={COLUMNS} id={(it) => String(it.number)} empty={<Empty icon={Layers} title="No points yet" text="The first point is listed when its transfer is complete." />} />}
    </Panel>
  );
}

import { useQuery, useQueries } from "@tanstack/react-query";
import { replicationHistory, type Stretch } from "../../api/performance";
import { replications } from "../../api/queries";
import { duration } from "../../format";
import { Chart, type Ink, type Line } from "../../parts/chart";
import { Panel } from "../../parts/panel";
import { worstFirst } from "../dashboard/replication";

/** Colours of lines, and so the largest number of lines. */
const INKS: Ink[] = ["read", "write", "offload"];

/** Lags of the replications nearest to or beyond their RPO. */
export function ReplicationLags({ stretch, onZoom }: { stretch: Stretch; onZoom: (from: number, to: number) => void }) {
  const all = useQuery(replications());
  const shown = worstFirst(all.data ?? []).slice(0, INKS.length);
  const series = useQueries({ queries: shown.map((it) => replicationHistory(it.name, stretch)) });
  if (shown.length === 0) return null;
  // All replications have the same steps; a younger replication has fewer steps.
  const times = [...new Set(series.flatMap((it) => it.data?.times ?? []))].sort((a, b) => a - b);
  const lines = shown.map((it, at): Line => {
    const data = series[at]?.data;
    const known = new Map(data?.times.map((time, index) => [time, data.values.lag_seconds[index] ?? null]));
    return { label: it.name, color: INKS[at] ?? "read", values: times.map((time) => known.get(time) ?? null) };
  });
  return (
    <Panel title="Replication lag">
      <Chart title="Replication lag" times={times} span={stretch} lines={lines} format={duration} onZoom={onZoom} />
    </Panel>
  );
}

/** A chart for each VAAI primitive: commands per second and latency. */
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { offloadHistory, type Scope, type Stretch } from "../../api/performance";
import type { SchemaOffloadColumns as Columns } from "../../api/schema";
import { count, latency } from "../../format";
import { Chart, type Line } from "../../parts/chart";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";

export const PRIMITIVES: Record<string, string> = { ats: "Compare and write (ATS)", xcopy: "Copy (XCOPY)", odx: "Copy by token (ODX)", write_same: "Write same", unmap: "Unmap" };

type Props = { scope: Scope; stretch: Stretch; onZoom: (from: number, to: number) => void };

export function OffloadCharts({ scope, stretch, onZoom }: Props) {
  const { data, error } = useQuery(offloadHistory(scope, stretch));
  const used = data?.items.filter((it) => it.work.iops.some((value) => value !== null && value > 0)) ?? [];
  if (!error && used.length === 0) return null;
  return (
    <Panel title="Offloads over time">
      <ProblemAlert error={error} />
      <div className="offload-charts">
        {used.map((it) => (
          <Primitive key={it.primitive} of={it} times={data?.times ?? []} stretch={stretch} onZoom={onZoom} />
        ))}
      </div>
    </Panel>
  );
}

function Primitive({ of: { primitive, work }, times, stretch, onZoom }: { of: Columns; times: number[]; stretch: Stretch; onZoom: Props["onZoom"] }) {
  const name = PRIMITIVES[primitive] ?? primitive;
  const rate: Line[] = useMemo(() => [{ label: "per second", color: "offload", values: work.iops }], [work]);
  const time: Line[] = useMemo(
    () => [
      { label: "mean", color: "offload", values: work.latency_us.mean },
      { label: "p99", color: "write", values: work.latency_us.p99, dashed: true },
    ],
    [work],
  );
  return (
    <section style={{ minWidth: 0 }} aria-label={name}>
      <Text size="sm" fw={500}>
        {name}
      </Text>
      <Chart title={`${name}: commands`} times={times} span={stretch} lines={rate} format={count} height={150} sync="performance" onZoom={onZoom} />
      <Chart title={`${name}: latency`} times={times} span={stretch} lines={time} format={latency} height={150} sync="performance" onZoom={onZoom} />
    </section>
  );
}

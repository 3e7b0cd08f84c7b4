/** Below the charts: transfer sizes, latencies, offloaded commands, busiest objects. */
import { SegmentedControl, Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Activity } from "lucide-react";
import { useState } from "react";
import { busiest, latencyMap, offloads, sizes, type Scope, type Stretch } from "../../api/performance";
import type { SchemaBusy as Busy, SchemaOffload as Offload } from "../../api/schema";
import { bytes, count, latency } from "../../format";
import { Empty } from "../../parts/empty";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { HeatMap } from "./heat-map";
import { CLASSES, type Class } from "./lines";
import { PRIMITIVES } from "./offload-charts";
import { SizeHistogram } from "./sizes";

type Shown = { scope: Scope; stretch: Stretch };

const inCapitals = (value: string) => ({ value, label: value.charAt(0).toUpperCase() + value.slice(1) });

export function Latencies({ scope, stretch }: Shown) {
  const { data, error } = useQuery(latencyMap(scope, stretch));
  const [of, setOf] = useState<Class>("read");
  return (
    <Panel title="Latency heat map" actions={<SegmentedControl size="xs" aria-label="Kind of command in the heat map" value={of} onChange={setOf} data={CLASSES.map((it) => inCapitals(it) as { value: Class; label: string })} />}>
      <ProblemAlert error={error} />
      {data ? <HeatMap map={data} of={of} /> : !error && <Skeleton height={190} />}
    </Panel>
  );
}

export function Sizes({ scope, stretch }: Shown) {
  const { data, error } = useQuery(sizes(scope, stretch));
  return (
    <Panel title="Transfer sizes">
      <ProblemAlert error={error} />
      {data ? <SizeHistogram rows={data} /> : !error && <Skeleton height={120} />}
    </Panel>
  );
}

const OFFLOADS: Column<Offload>[] = [
  { name: "Primitive", cell: (it) => PRIMITIVES[it.primitive] ?? it.primitive },
  { name: "Commands", cell: (it) => count(it.commands), right: true },
  { name: "Bytes", cell: (it) => bytes(it.bytes), right: true },
  { name: "Shared", cell: (it) => (it.shared_bytes == null ? "–" : bytes(it.shared_bytes)), right: true, wide: true },
  { name: "Failed", cell: (it) => count(it.failures), right: true, wide: true },
  { name: "Mean", cell: (it) => (it.latency_us.mean == null ? "–" : latency(it.latency_us.mean)), right: true },
];

export function Offloads({ scope, stretch }: Shown) {
  const { data, error } = useQuery(offloads(scope, stretch));
  return (
    <Panel title="Offloads" flush>
      <ProblemAlert error={error} />
      <DataTable label="Offloads" noun="primitive" rows={data} columns={OFFLOADS} id={(it) => it.primitive} empty={<Empty icon={Activity} title="No offloaded commands" text="Commands that hosts offload to the array are counted here." />} />
    </Panel>
  );
}

const NOUNS = { volume: "Volume", host: "Host", controller: "Controller" };

export function Busiest({ onChoose }: { onChoose: (scope: Scope) => void }) {
  const [by, setBy] = useState<keyof typeof NOUNS>("volume");
  const { data, error } = useQuery(busiest(by));
  const columns: Column<Busy>[] = [
    {
      name: NOUNS[by],
      key: (it) => it.name,
      cell: (it) => (
        <button type="button" className="link" onClick={() => onChoose({ kind: by, name: it.name })}>
          {it.name}
        </button>
      ),
    },
    { name: "IOPS", key: (it) => it.total.iops, down: true, first: true, cell: (it) => count(it.total.iops), right: true },
    { name: "Throughput", key: (it) => it.total.bytes_per_second, down: true, cell: (it) => `${bytes(it.total.bytes_per_second)}/s`, right: true },
    { name: "Mean latency", key: (it) => it.total.latency_us.mean ?? 0, down: true, cell: (it) => (it.total.latency_us.mean == null ? "–" : latency(it.total.latency_us.mean)), right: true },
    { name: "p99", key: (it) => it.total.latency_us.p99 ?? 0, down: true, cell: (it) => (it.total.latency_us.p99 == null ? "–" : latency(it.total.latency_us.p99)), right: true, wide: true },
  ];
  return (
    <Panel title="Busiest now" flush actions={<SegmentedControl size="xs" aria-label="Busiest of" value={by} onChange={setBy} data={[{ value: "volume", label: "Volumes" }, { value: "host", label: "Hosts" }, { value: "controller", label: "Controllers" }]} />}>
      <ProblemAlert error={error} />
      <DataTable
        label="Busiest now"
        noun={by}
        rows={data}
        columns={columns}
        id={(it) => it.name}
        empty={
          <Text size="sm" className="quiet" ta="center" p="lg">
            No I/O at present.
          </Text>
        }
      />
    </Panel>
  );
}

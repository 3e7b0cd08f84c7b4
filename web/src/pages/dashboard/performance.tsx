import { Anchor, SimpleGrid, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";
import { performance } from "../../api/performance";
import type { SchemaPerformance as Performance } from "../../api/schema";
import { bytes, count, latency } from "../../format";
import { Chart } from "../../parts/chart";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { CLASSES, lines } from "../performance/lines";

type Kind = { title: string; of: Parameters<typeof lines>[2]; format: (value: number) => string; binary?: boolean };

const KINDS: Kind[] = [
  { title: "IOPS", of: (it) => it.iops, format: count },
  { title: "Throughput", of: (it) => it.bytes_per_second, format: (it) => `${bytes(it)}/s`, binary: true },
  { title: "Latency", of: (it) => it.latency_us.mean, format: latency },
];

/** The last five minutes, second by second. */
export function PerformancePanel() {
  const { data, error } = useQuery(performance({ kind: "array" }, { last: 300 }));
  return (
    <Panel
      title="Performance"
      actions={
        <Anchor component={Link} href="/performance" size="sm">
          Performance history
        </Anchor>
      }
    >
      <ProblemAlert error={error} />
      <SimpleGrid cols={{ base: 1, lg: 3 }} spacing="lg">
        {KINDS.map((kind) => (
          <Small key={kind.title} kind={kind} data={data} />
        ))}
      </SimpleGrid>
    </Panel>
  );
}

function Small({ kind: { title, of, format, binary }, data }: { kind: Kind; data: Performance | undefined }) {
  const drawn = useMemo(() => lines([{ name: "array", data }], CLASSES, of), [data, of]);
  return (
    <div style={{ minWidth: 0 }}>
      <Text size="sm" className="quiet" mb={4}>
        {title}
      </Text>
      <Chart title={title} times={data?.times ?? []} lines={drawn} format={format} binary={binary} height={150} sync="dashboard" />
    </div>
  );
}

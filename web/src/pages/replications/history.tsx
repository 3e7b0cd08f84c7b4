import { SegmentedControl, SimpleGrid, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { replicationHistory } from "../../api/performance";
import type { SchemaReplication as Replication } from "../../api/schema";
import { bytes, duration } from "../../format";
import { Chart, type Line } from "../../parts/chart";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";

const RANGES = [
  { value: "3600", label: "1 h" },
  { value: "86400", label: "1 d" },
  { value: "604800", label: "7 d" },
  { value: "2592000", label: "30 d" },
];

/** Lag against the RPO, rate of the transfer, and bytes that wait. */
export function HistoryPanel({ of: { name, role, rpo_seconds: rpo } }: { of: Replication }) {
  const [last, setLast] = useState("3600");
  const { data, error } = useQuery(replicationHistory(name, { last: Number(last) }));
  const span = { last: Number(last) };
  const times = data?.times ?? [];
  const values = data?.values;
  const lag: Line[] = [
    { label: "Lag", color: "read", values: values?.lag_seconds.map((it) => it ?? null) ?? [] },
    { label: "RPO", color: "write", values: times.map(() => rpo), dashed: true },
  ];
  const network: Line[] = [{ label: "Network", color: "offload", values: values?.network_bytes_per_second ?? [] }];
  const backlog: Line[] = [{ label: "Backlog", color: "space", values: values?.backlog_bytes.map((it) => it ?? null) ?? [] }];
  return (
    <Panel title="History" actions={<SegmentedControl size="xs" aria-label="Range" value={last} onChange={setLast} data={RANGES} />}>
      <Stack gap="md">
        <ProblemAlert error={error} />
        <Chart title="Lag" times={times} span={span} lines={lag} format={duration} sync={`replication-${name}`} />
        <SimpleGrid cols={{ base: 1, md: role === "source" ? 2 : 1 }} spacing="md">
          <Chart title="Throughput" times={times} span={span} lines={network} format={(it) => `${bytes(it)}/s`} binary height={150} sync={`replication-${name}`} />
          {role === "source" && <Chart title="Backlog" times={times} span={span} lines={backlog} format={bytes} binary height={150} sync={`replication-${name}`} />}
        </SimpleGrid>
      </Stack>
    </Panel>
  );
}

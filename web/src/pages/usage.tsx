import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Ruler } from "lucide-react";
import { usage } from "../api/queries";
import { bytes, plural, ratio } from "../format";
import { Panel } from "../parts/panel";
import { ProblemAlert } from "../parts/problem";

/** Space usage. The page measures it on request, because the measurement scans every map. */
export function UsagePanel({ kind, name }: { kind: "volume" | "group"; name: string }) {
  const { data, error, isFetching, refetch } = useQuery({ ...usage(kind, name), enabled: false });
  const measure = (
    <Button variant="default" size="compact-sm" leftSection={<Ruler size={14} aria-hidden />} loading={isFetching} onClick={() => void refetch()}>
      Measure
    </Button>
  );
  return (
    <Panel title="Space usage" actions={measure}>
      <ProblemAlert error={error} />
      {data ? (
        <dl className="facts">
          <dt>Data to own space</dt>
          <dd className="number">
            {ratio(data.physical > 0 ? (data.unique + data.shared) / data.physical : null)} <span className="quiet">its data, to the space that only it takes: not to be compared with the reduction of the array</span>
          </dd>
          <dt>Freed when deleted</dt>
          <dd className="number">{bytes(data.physical + data.metadata)}</dd>
          <dt>Unique data</dt>
          <dd className="number">{bytes(data.unique)} before compression</dd>
          <dt>Shared data</dt>
          <dd className="number">{bytes(data.shared)}</dd>
          <dt>Zeros</dt>
          <dd className="number">{bytes(data.zero)}</dd>
          <dt>Snapshots</dt>
          <dd className="number">
            {plural(data.snapshots, "snapshot")}, {bytes(data.snapshot)} mapped
          </dd>
        </dl>
      ) : (
        <Text size="sm" className="quiet">
          What only {kind === "volume" ? "this volume holds" : "these volumes hold"}, with all snapshots: copies, clones and the recycle bin share the rest. Measuring takes a while when they hold much.
        </Text>
      )}
    </Panel>
  );
}

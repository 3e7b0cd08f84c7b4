import { Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { replications } from "../../api/queries";
import type { SchemaReplication as Replication } from "../../api/schema";
import { bytes, plural } from "../../format";
import { Fact } from "../../parts/fact";
import { Panel } from "../../parts/panel";
import { Lag, StateDot } from "../replications/state";

/** The lag as a share of the RPO. */
const share = ({ progress, rpo_seconds: rpo }: Replication) => (progress.lag_seconds ?? 0) / rpo;

/** The order of replications: split or without space first, then by lag. */
export function worstFirst(all: Replication[]): Replication[] {
  const rank = ({ progress: { state } }: Replication) => (state === "split" ? 2 : state === "no_space" || state === "failed" ? 1 : 0);
  return [...all].sort((a, b) => rank(b) - rank(a) || share(b) - share(a));
}

/** Largest number of shown replications. */
const SHOWN = 4;

/** The replications with the largest lags; nothing without replications. */
export function ReplicationPanel() {
  const { data } = useQuery(replications());
  if (!data?.length) return null;
  const missed = data.filter((it) => share(it) > 1).length;
  const rate = data.reduce((sum, it) => sum + it.progress.network_bytes_per_second, 0);
  return (
    <Panel title="Replication" actions={<Link href="/replications">{missed > 0 ? `${plural(missed, "RPO")} missed` : "All RPOs are met"}</Link>}>
      <Stack gap="sm">
        <dl className="facts">
          {worstFirst(data)
            .slice(0, SHOWN)
            .map((it) => (
              <Fact key={it.id} name={it.name}>
                <Link className="plain" href={`/replications/${encodeURIComponent(it.name)}`}>
                  {it.role === "source" ? `to ${it.remote_array}` : `from ${it.remote_array}`}
                </Link>{" "}
                <StateDot of={it} /> <Lag of={it} />
              </Fact>
            ))}
          <Fact name="Throughput">{bytes(rate)}/s</Fact>
        </dl>
      </Stack>
    </Panel>
  );
}

/** The present work of hosts, as large numbers beside the last five minutes. */
import { Anchor, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";
import { LATELY, performance, type Scope, scopeText } from "../../api/performance";
import type { SchemaPerformance as Performance, SchemaWorkColumns as Work } from "../../api/schema";
import { bytes, count, latency } from "../../format";
import { Chart, useColours } from "../../parts/chart";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { CLASSES, current, lines, type Current } from "../performance/lines";

type Kind = { title: string; now: (it: Current) => number | null; of: (it: Work) => (number | null)[]; format: (value: number) => string; binary?: boolean };

const rate = (it: number) => `${bytes(it)}/s`;

const KINDS: Kind[] = [
  { title: "IOPS", now: (it) => it.iops, of: (it) => it.iops, format: count },
  { title: "Throughput", now: (it) => it.bytes_per_second, of: (it) => it.bytes_per_second, format: rate, binary: true },
  { title: "Latency", now: (it) => it.latency_us, of: (it) => it.latency_us.mean, format: latency },
];

/** Performance of the array, a volume, a group or a host, at present and in the last five minutes. */
export function NowPanel({ scope = { kind: "array" } }: { scope?: Scope }) {
  const { data, error } = useQuery(performance(scope, LATELY));
  const href = scope.kind === "array" ? "/performance" : `/performance?of=${encodeURIComponent(scopeText(scope))}`;
  return (
    <Panel
      title="Performance"
      actions={
        <Anchor component={Link} href={href} size="sm">
          Performance history
        </Anchor>
      }
    >
      <ProblemAlert error={error} />
      <div className="now">
        {KINDS.map((kind) => (
          <Figure key={kind.title} kind={kind} data={data} />
        ))}
      </div>
    </Panel>
  );
}

function Figure({ kind: { title, now, of, format, binary }, data }: { kind: Kind; data: Performance | undefined }) {
  const drawn = useMemo(() => lines([{ name: "array", data }], CLASSES, of), [data, of]);
  const colours = useColours();
  const all = current(data);
  const say = (value: number | null) => (value === null ? "–" : format(value));
  return (
    <section style={{ minWidth: 0 }} aria-label={`Current ${title}`}>
      <Text size="sm" className="quiet">
        {title}
      </Text>
      <div className="figure">
        <span className="figure-value number">{say(now(all.total))}</span>
        <span className="figure-parts">
          {CLASSES.map((it) => (
            <span key={it} className="figure-part">
              <span aria-hidden className="figure-key" style={{ background: colours[it] }} />
              <span className="quiet">{it}</span> <span className="number">{say(now(all[it]))}</span>
            </span>
          ))}
        </span>
      </div>
      <Chart title={title} times={data?.times ?? []} span={LATELY} lines={drawn} format={format} binary={binary} height={150} sync="now" legend={false} />
    </section>
  );
}

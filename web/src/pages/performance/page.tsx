/** Performance history: charts by object and time, comparison, export. */
import { ActionIcon, Button, Group, SegmentedControl, Select, SimpleGrid, Stack, Tooltip } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { ChevronLeft, ChevronRight, Image, Sheet, ZoomIn, ZoomOut } from "lucide-react";
import { useMemo, useRef } from "react";
import { useLocation, useSearch } from "wouter";
import { bounds, LATELY, performance, performanceCsv, scopeOf, scopeText, stretchOf, type Scope, type Stretch } from "../../api/performance";
import { controllers, groups, hosts } from "../../api/queries";
import { bytes, count, latency } from "../../format";
import { Chart, save, saveCharts, useColours, type Line } from "../../parts/chart";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { useVolumeChoice } from "../../parts/volume-choice";
import { Busiest, Latencies, Offloads, Sizes } from "./details";
import { OffloadCharts } from "./offload-charts";
import { ReplicationLags } from "./replications";
import { ViewMenu } from "./view-menu";
import { CLASSES, current, type Current, lines, PERCENTILES, type Class, type Percentile } from "./lines";

const RANGES = [
  { value: "300", label: "5 min" },
  { value: "3600", label: "1 h" },
  { value: "21600", label: "6 h" },
  { value: "86400", label: "1 d" },
  { value: "604800", label: "7 d" },
  { value: "2592000", label: "30 d" },
  { value: "31536000", label: "1 y" },
];

const PERCENTILE_NAMES: Record<Percentile, string> = { mean: "Mean", p50: "p50", p95: "p95", p99: "p99", p999: "p99.9", max: "Max" };

export function PerformancePage() {
  const { scope, other, stretch, work, percentile, search, choose, setStretch, setWork, setPercentile, showView } = useChosen();
  const first = useQuery(performance(scope, stretch));
  const second = useQuery({ ...performance(other ?? scope, stretch), enabled: other !== undefined });
  const charts = useRef<HTMLDivElement>(null);
  const colours = useColours();
  const classes = work === "all" ? CLASSES : [work];
  const name = (it: Scope) => (it.kind === "array" ? "array" : it.name);
  const all = other ? [{ name: name(scope), data: first.data }, { name: name(other), data: second.data }] : [{ name: name(scope), data: first.data }];
  const heading = all.map((it) => it.name).join(" and ");
  const file = all.map((it) => it.name).join("-and-");
  const csv = useMutation({ mutationFn: () => performanceCsv(other ? [scope, other] : [scope], stretch), onSuccess: (blob) => save(blob, `${file}-performance.csv`) });
  // For a longer range, the newest point is a mean over minutes.
  const live = "last" in stretch && stretch.last <= 3_600;
  const zoom = (from: number, to: number) => setStretch({ from, to: Math.max(to, from + 10) });
  return (
    <Page
      title="Performance"
      actions={
        <>
          <ViewMenu search={search} onShow={showView} />
          <Button variant="default" leftSection={<Sheet size={15} aria-hidden />} loading={csv.isPending} onClick={() => csv.mutate()}>
            CSV
          </Button>
          <Button variant="default" leftSection={<Image size={15} aria-hidden />} onClick={() => charts.current && saveCharts(charts.current, file, heading, colours.ground, colours.text)}>
            PNG
          </Button>
        </>
      }
    >
      <Stack gap="md">
        <Panel>
          <Stack gap="sm">
            <Group gap="sm" align="flex-end">
              <ScopeSelect label="Scope" value={scope} onChange={(it) => choose(it ?? { kind: "array" }, other)} />
              <ScopeSelect label="Compare with" placeholder="None" value={other} onChange={(it) => choose(scope, it)} />
              <SegmentedControl aria-label="Kind of command" value={work} onChange={setWork} data={[{ value: "all", label: "All" }, ...CLASSES.map((value) => ({ value, label: value.charAt(0).toUpperCase() + value.slice(1) }))]} />
            </Group>
            <Times stretch={stretch} onChange={setStretch} />
          </Stack>
        </Panel>
        <ProblemAlert error={first.error ?? second.error ?? csv.error} />
        <div ref={charts}>
          <Stack gap="md">
            <Series title="IOPS" stretch={stretch} all={all} classes={classes} of={(it) => it.iops} format={count} now={live ? (it) => it.iops : undefined} onZoom={zoom} />
            <Series title="Throughput" stretch={stretch} all={all} classes={classes} of={(it) => it.bytes_per_second} format={(it) => `${bytes(it)}/s`} now={live ? (it) => it.bytes_per_second : undefined} binary onZoom={zoom} />
            <Series
              title="Latency"
              stretch={stretch}
              all={all}
              classes={classes}
              of={(it) => it.latency_us[percentile]}
              format={latency}
              now={live && percentile === "mean" ? (it) => it.latency_us : undefined}
              onZoom={zoom}
              actions={<SegmentedControl size="xs" aria-label="Percentile" value={percentile} onChange={setPercentile} data={PERCENTILES.map((value) => ({ value, label: PERCENTILE_NAMES[value] }))} />}
            />
          </Stack>
        </div>
        <OffloadCharts scope={scope} stretch={stretch} onZoom={zoom} />
        {scope.kind === "array" && <ReplicationLags stretch={stretch} onZoom={zoom} />}
        <Latencies scope={scope} stretch={stretch} />
        <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
          <Sizes scope={scope} stretch={stretch} />
          <Offloads scope={scope} stretch={stretch} />
        </SimpleGrid>
        <Busiest onChoose={(it) => choose(it, undefined)} />
      </Stack>
    </Page>
  );
}

/**
 * The address contains the charts' subject, range and kind of command, so a link or a saved view opens the same charts.
 */
function useChosen() {
  const text = useSearch();
  const search = new URLSearchParams(text);
  const [location, go] = useLocation();
  const against = search.get("against");
  const [scope, other, stretch] = [scopeOf(search.get("of")), against ? scopeOf(against) : undefined, stretchOf(search)];
  const work: "all" | Class = CLASSES.find((it) => it === search.get("work")) ?? "all";
  const percentile: Percentile = PERCENTILES.find((it) => it === search.get("percentile")) ?? "mean";
  const show = (change: { scope?: Scope; other?: Scope | undefined; stretch?: Stretch; work?: "all" | Class; percentile?: Percentile }) => {
    const next = { scope, other, stretch, work, percentile, ...change };
    const times = Object.entries(next.stretch).map(([name, value]) => [name, `${value}`]);
    const rest = [...(next.work !== "all" ? [["work", next.work]] : []), ...(next.percentile !== "mean" ? [["percentile", next.percentile]] : [])];
    const all = new URLSearchParams([["of", scopeText(next.scope)], ...(next.other ? [["against", scopeText(next.other)]] : []), ...times, ...rest]);
    go(`${location}?${all.toString()}`, { replace: true });
  };
  return {
    scope,
    other,
    stretch,
    work,
    percentile,
    search: text,
    choose: (scope: Scope, other: Scope | undefined) => show({ scope, other }),
    setStretch: (stretch: Stretch) => show({ stretch }),
    setWork: (work: "all" | Class) => show({ work }),
    setPercentile: (percentile: Percentile) => show({ percentile }),
    showView: (search: string) => go(`${location}?${search}`, { replace: true }),
  };
}

type ScopeProps = { label: string; placeholder?: string; value: Scope | undefined; onChange: (scope: Scope | undefined) => void };

const WHOLE = "The whole array";
/** Entries of each kind that are shown at once. */
const SCOPES = 50;

function ScopeSelect({ label, placeholder, value, onChange }: ScopeProps) {
  const all = useVolumeChoice(true, value?.kind === "volume" ? [value.name] : [], value?.kind === "array" ? WHOLE : value?.name);
  const known = { volume: all.names?.map((name) => ({ name })), group: useQuery(groups()).data, host: useQuery(hosts()).data, controller: useQuery(controllers()).data?.map((it) => ({ name: `${it.number}` })) };
  const items = (kind: "volume" | "group" | "host" | "controller") => (known[kind] ?? []).map((it) => ({ value: `${kind}:${it.name}`, label: it.name }));
  return (
    <Select
      label={label}
      placeholder={placeholder}
      value={value ? scopeText(value) : null}
      onChange={(text) => onChange(text === null ? undefined : scopeOf(text))}
      data={[
        { value: "array", label: WHOLE },
        { group: "Volumes", items: items("volume") },
        { group: "Volume groups", items: items("group") },
        { group: "Hosts", items: items("host") },
        { group: "Controllers", items: items("controller") },
      ]}
      {...all.input}
      limit={SCOPES}
      clearable={placeholder !== undefined}
      allowDeselect={placeholder !== undefined}
      w={220}
    />
  );
}

/** The shown range: a length that ends now, or the zoomed range. */
function Times({ stretch, onChange }: { stretch: Stretch; onChange: (stretch: Stretch) => void }) {
  const move = (by: (from: number, length: number) => { from: number; to: number }) => {
    const { from, to } = bounds(stretch);
    onChange(by(from, to - from));
  };
  const button = (label: string, Icon: typeof ZoomIn, by: (from: number, length: number) => { from: number; to: number }) => (
    <Tooltip label={label}>
      <ActionIcon variant="default" size="lg" aria-label={label} onClick={() => move(by)}>
        <Icon size={16} />
      </ActionIcon>
    </Tooltip>
  );
  return (
    <Group gap="xs">
      <div style={{ overflowX: "auto" }}>
        <SegmentedControl aria-label="Time" value={"last" in stretch ? `${stretch.last}` : ""} onChange={(last) => onChange({ last: Number(last) })} data={RANGES} />
      </div>
      {button("Earlier", ChevronLeft, (from, length) => ({ from: Math.floor(from - length / 2), to: Math.floor(from + length / 2) }))}
      {button("Later", ChevronRight, (from, length) => ({ from: Math.floor(from + length / 2), to: Math.floor(from + length * 1.5) }))}
      {button("Zoom in", ZoomIn, (from, length) => ({ from: Math.floor(from + length / 4), to: Math.ceil(from + (length * 3) / 4) }))}
      {button("Zoom out", ZoomOut, (from, length) => ({ from: Math.floor(from - length / 2), to: Math.ceil(from + length * 1.5) }))}
      {"from" in stretch && (
        <Button variant="subtle" onClick={() => onChange(LATELY)}>
          Back to now
        </Button>
      )}
    </Group>
  );
}

type SeriesProps = {
  title: string;
  stretch: Stretch;
  all: Parameters<typeof lines>[0];
  classes: readonly Class[];
  of: Parameters<typeof lines>[2];
  format: (value: number) => string;
  binary?: boolean;
  onZoom: (from: number, to: number) => void;
  /** The present value, if the shown range ends now. */
  now?: ((it: Current) => number | null) | undefined;
  actions?: React.ReactNode;
};

function Series({ title, stretch, all, classes, of, format, binary, onZoom, now, actions }: SeriesProps) {
  const times = all[0]?.data?.times;
  const drawn: Line[] = useMemo(() => lines(all, classes, of), [all, classes, of]);
  const figure = all.length === 1 && now ? now(current(all[0]?.data).total) : undefined;
  return (
    <Panel title={title} actions={actions}>
      {figure !== undefined && (
        <div className="figure" aria-label={`Current ${title}`} role="group">
          <span className="figure-value number">{figure === null ? "–" : format(figure)}</span>
          <span className="quiet" style={{ fontSize: 12 }}>
            at present, all commands
          </span>
        </div>
      )}
      <Chart title={title} times={times ?? []} span={stretch} lines={drawn} format={format} binary={binary} sync="performance" onZoom={onZoom} />
    </Panel>
  );
}

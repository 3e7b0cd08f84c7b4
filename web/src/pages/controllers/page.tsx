import { Anchor, Button, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Cpu } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { scopeText } from "../../api/performance";
import { controllers } from "../../api/queries";
import type { SchemaController as Controller, SchemaControllerState as State, SchemaTakeover as Takeover } from "../../api/schema";
import { bytes, count, moment } from "../../format";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { Fact } from "../../parts/fact";
import { May } from "../../parts/may";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { TaskDialog, type Task } from "./tasks";
import { StorePanel } from "./store";

const STATES: Record<State, { color: "teal" | "gray" | "red" | "yellow"; label: string }> = {
  home: { color: "teal", label: "home" },
  standby: { color: "yellow", label: "standby" },
  stopped: { color: "gray", label: "stopped" },
  lost: { color: "red", label: "lost" },
};

const CAUSES: Record<Takeover["cause"], string> = { stopped: "which was stopped", lost: "which was lost", moved: "which gave the array up" };

/** Controllers with their state and addresses, the last takeover, and the store that they share. */
export function ControllersPage() {
  const { data, error } = useQuery(controllers());
  const [task, setTask] = useState<Task>();
  const home = data?.find((it) => it.state === "home");
  return (
    <Page title="Controllers">
      <Stack gap="md">
        <ProblemAlert error={error} />
        {(data || !error) && (
          <Panel flush>
            <DataTable label="Controllers" noun="controller" rows={data} columns={columns(setTask)} id={(it) => `${it.number}`} empty={<Empty icon={Cpu} title="No controllers" text="Controllers are listed when they take part." />} />
          </Panel>
        )}
        {home?.takeover && <TakeoverPanel home={home} takeover={home.takeover} />}
        <StorePanel />
      </Stack>
      {task && <TaskDialog task={task} onClose={() => setTask(undefined)} />}
    </Page>
  );
}

const columns = (choose: (task: Task) => void): Column<Controller>[] => [
  { name: "Controller", key: (it) => it.number, cell: (it) => <span className="number">{it.number}</span> },
  { name: "Machine", key: (it) => it.name, cell: (it) => <span style={{ overflowWrap: "anywhere" }}>{it.name}</span> },
  { name: "State", key: (it) => it.state, cell: (it) => <Dot {...STATES[it.state]} label={it.drained ? `${STATES[it.state].label}, drained` : STATES[it.state].label} /> },
  { name: "Since", key: (it) => it.since ?? "", down: true, cell: (it) => <span className="quiet number">{it.since ? moment(it.since) : "unknown"}</span>, wide: true },
  { name: "Version", key: (it) => it.version, cell: (it) => it.version, wide: true },
  { name: "API", cell: (it) => (it.api ? <Anchor href={it.api} size="sm">{it.api}</Anchor> : <span className="quiet">unknown</span>), wide: "xl" },
  { name: "Portals", cell: (it) => <Portals of={it} />, wide: "xl" },
  { name: "Sessions", key: (it) => it.sessions, down: true, cell: (it) => <span className="number">{count(it.sessions)}</span> },
  { name: "IOPS", key: (it) => it.performance.iops, down: true, cell: (it) => <Iops of={it} /> },
  { name: "Throughput", key: (it) => it.performance.bytes_per_second, down: true, cell: (it) => <span className="number">{bytes(it.performance.bytes_per_second)}/s</span>, wide: true },
  {
    name: "",
    right: true,
    cell: (it) => (
      <May role="admin">
        {tasks(it).map((verb) => (
          <Button key={verb} variant="subtle" color="gray" size="compact-sm" aria-label={`${verb} controller ${it.number}`} onClick={() => choose({ verb, controller: it })}>
            {verb}
          </Button>
        ))}
      </May>
    ),
  },
];

/** The actions on a controller. */
function tasks({ state, drained }: Controller): Task["verb"][] {
  const runs = state === "home" || state === "standby";
  return [drained ? (["Resume"] as const) : runs ? (["Drain"] as const) : [], runs ? [] : (["Remove"] as const)].flat();
}

/** The link to the charts of a controller. */
function Iops({ of: { number, performance } }: { of: Controller }) {
  const iops = count(performance.iops);
  return (
    <Link href={`/performance?of=${scopeText({ kind: "controller", name: `${number}` })}`} className="link number" aria-label={`${iops} IOPS by controller ${number}`}>
      {iops}
    </Link>
  );
}

function Portals({ of: { portals, nvme_portals } }: { of: Controller }) {
  const all = [...portals.map((it) => `iSCSI ${it}`), ...nvme_portals.map((it) => `NVMe ${it}`)];
  return (
    <>
      {all.map((it) => (
        <div key={it} className="number">
          {it}
        </div>
      ))}
    </>
  );
}

/** The phases of the last takeover. */
function TakeoverPanel({ home, takeover }: { home: Controller; takeover: Takeover }) {
  const phases: [string, number][] = [
    ["Silence until it counted as lost", takeover.silence_ms],
    ["Agreement of the controllers", takeover.agreement_ms],
    ["Opening of the store", takeover.store_ms],
    ["Recovery of the journal", takeover.recovery_ms],
    ["Start of portals and API", takeover.start_ms],
    ["In all", takeover.total_ms],
  ];
  return (
    <Panel title="Last takeover">
      <p style={{ marginTop: 0 }}>
        Controller {home.number} took over from controller {takeover.from}, {CAUSES[takeover.cause]}, on {moment(takeover.time, true)}.
      </p>
      <dl className="facts">
        {phases.map(([name, ms]) => (
          <Fact key={name} name={name}>
            {count(ms)} ms
          </Fact>
        ))}
      </dl>
    </Panel>
  );
}

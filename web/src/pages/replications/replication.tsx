import { Alert, Button, SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Clock, Pause, Pencil, Play, RefreshCw, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { replication, useChange } from "../../api/queries";
import type { SchemaOnLinkLoss as OnLinkLoss, SchemaReplication as Replication, SchemaReplicationMode as Mode } from "../../api/schema";
import { bytes, count, duration, latency, moment, ratio } from "../../format";
import { Fact } from "../../parts/fact";
import { May } from "../../parts/may";
import { NounPage } from "../../parts/noun-page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { RowLink } from "../../parts/row-link";
import { ChangeReplication } from "./forms";
import { HistoryPanel } from "./history";
import { PointsPanel } from "./points";
import { ruleText } from "./rules";
import { Lag, StateDot, subject } from "./state";
import { windowText } from "./windows";
import { ROLES, TaskDialog, verbs, type Verb } from "./tasks";

/** One replication: its progress, and its actions on this array. */
export function ReplicationPage({ name }: { name: string }) {
  const object = useQuery(replication(name));
  const [changing, setChanging] = useState(false);
  const [task, setTask] = useState<Verb>();
  const params = { path: { name } };
  const sync = useChange({ run: () => answer(api.POST("/api/v1/replications/{name}/sync", { params })), done: () => "A point is taken and transferred." });
  const pause = useChange({ run: () => answer(api.POST("/api/v1/replications/{name}/pause", { params })), done: () => `${name} is paused.` });
  const resume = useChange({ run: () => answer(api.POST("/api/v1/replications/{name}/resume", { params })), done: () => `${name} was resumed.` });
  return (
    <NounPage
      name={name}
      object={object}
      above={{ label: "Replication", path: "/replications" }}
      beside={(data) => <StateDot of={data} />}
      actions={(data) => (
        <>
          <May>
            {data.role === "source" && !data.progress.demotion && ["idle", "syncing", "failed", "no_space", "in_sync", "out_of_sync"].includes(data.progress.state) && (
              <Button leftSection={<RefreshCw size={15} aria-hidden />} loading={sync.isPending} onClick={() => sync.mutate(undefined)}>
                Sync now
              </Button>
            )}
            {data.progress.state === "paused" || data.progress.state === "split" ? (
              <Button variant="default" leftSection={<Play size={15} aria-hidden />} loading={resume.isPending} onClick={() => resume.mutate(undefined)}>
                Resume
              </Button>
            ) : (
              <Button variant="default" leftSection={<Pause size={15} aria-hidden />} loading={pause.isPending} onClick={() => pause.mutate(undefined)}>
                Pause
              </Button>
            )}
            <Button variant="default" leftSection={<Pencil size={15} aria-hidden />} onClick={() => setChanging(true)}>
              Change
            </Button>
          </May>
          {verbs(data).map((verb) => (
            <May key={verb} role={ROLES[verb]}>
              <Button variant="default" onClick={() => setTask(verb)}>
                {verb}
              </Button>
            </May>
          ))}
        </>
      )}
    >
      {(data) => (
        <>
          <ProblemAlert error={sync.error ?? pause.error ?? resume.error} />
          <Remarks of={data} />
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            <ProgressPanel of={data} />
            <FactsPanel of={data} />
          </SimpleGrid>
          <HistoryPanel of={data} />
          {data.role === "target" && <PointsPanel of={data} />}
          <ChangeReplication key={`${data.name} ${data.mode} ${data.on_link_loss} ${data.witness} ${data.rpo_seconds} ${data.keep_points} ${data.lock_seconds} ${data.replicate_snapshots} ${data.keep_snapshots} ${data.keep_rules.map(ruleText).join()} ${data.blackouts.map(windowText).join()}`} replication={data} opened={changing} onClose={() => setChanging(false)} />
          {task && <TaskDialog verb={task} replication={data} onClose={() => setTask(undefined)} />}
        </>
      )}
    </NounPage>
  );
}

/** Conditions that an operator must decide or know. */
function Remarks({ of: { progress, remote_array: remote } }: { of: Replication }) {
  if (progress.state === "split")
    return (
      <Alert color="red" icon={<TriangleAlert size={18} />} title="The volumes of both arrays take writes" role="alert">
        Decide which array loses its changes, and demote the replication there: on this array with the button above, or on {remote}.
      </Alert>
    );
  if (progress.state === "no_space")
    return (
      <Alert color="orange" icon={<TriangleAlert size={18} />} title="The target has no space" role="status">
        {progress.demotion === "incomplete" ? "The demotion" : "The transfer"} continues by itself when there is some: delete what is not needed there, or add drives.
      </Alert>
    );
  if (progress.state === "writes_stopped")
    return (
      <Alert color="red" icon={<TriangleAlert size={18} />} title="Writes are refused until both arrays are in sync again" role="alert">
        {progress.sync?.cause ?? `${remote} is out of reach`}. To continue without the other array, change the replication: hosts continue while the other array is out of reach. A loss of this array then loses their writes.
      </Alert>
    );
  if (progress.state === "out_of_sync")
    return (
      <Alert color="orange" icon={<TriangleAlert size={18} />} title={`Not the same as ${remote}${progress.sync?.since ? ` since ${moment(progress.sync.since)}` : ""}`} role="status">
        {progress.sync?.cause ?? progress.problem ?? "The other array is out of reach"}. The missing writes are transferred when it is reachable again.
      </Alert>
    );
  if (progress.state === "paused" && progress.demotion === "incomplete")
    return (
      <Alert color="orange" icon={<Pause size={18} />} title="The demotion waits" role="status">
        The volumes are read-only. The last point is not transferred while the replication is paused: resume it.
      </Alert>
    );
  if (progress.sync?.witness_problem)
    return (
      <Alert color="orange" icon={<TriangleAlert size={18} />} title="No failover would follow by itself" role="status">
        The witness cannot decide: {progress.sync.witness_problem}.
      </Alert>
    );
  if (progress.blackout_until)
    return (
      <Alert color="gray" icon={<Clock size={18} />} title="Blackout window" role="status">
        No point is taken or transferred until {moment(progress.blackout_until)}, unless you choose “Sync now”.
      </Alert>
    );
  if (!progress.problem) return null;
  return (
    <Alert color="orange" icon={<TriangleAlert size={18} />} title={progress.demotion === "incomplete" ? "The demotion is not complete: the last transfer failed, and is repeated" : "The last transfer failed, and is repeated"} role="status">
      {progress.problem}
    </Alert>
  );
}

function ProgressPanel({ of: data }: { of: Replication }) {
  const { progress, rpo_seconds } = data;
  const { logical_bytes: logical, network_bytes: network } = progress;
  return (
    <Panel title="Progress">
      <dl className="facts">
        <Fact name="Lag">
          <Lag of={data} />
        </Fact>
        <Fact name="RPO">{duration(rpo_seconds)}</Fact>
        <Fact name="Last complete point">{typeof progress.last_point === "number" && progress.last_point_taken ? `${count(progress.last_point)}, taken ${moment(progress.last_point_taken, true)}` : "none yet"}</Fact>
        <Fact name="Points on this array">{count(progress.points)}</Fact>
        {progress.state === "in_sync" && progress.sync?.since && <Fact name="Both arrays are the same since">{moment(progress.sync.since)}</Fact>}
        {data.role === "source" && progress.sync && <Fact name="Changes under way">{count(progress.sync.changes_under_way)}</Fact>}
        {typeof progress.sync?.round_trip_us === "number" && <Fact name="Round trip of a change">{latency(progress.sync.round_trip_us)}</Fact>}
        {data.role === "source" && <Fact name="Changed data">{bytes(logical)}</Fact>}
        {typeof progress.backlog_bytes === "number" && <Fact name="Written since">{bytes(progress.backlog_bytes)}</Fact>}
        <Fact name="Throughput">
          {bytes(progress.network_bytes_per_second)}/s{progress.throttled && ", throttled while hosts are active"}
        </Fact>
        <Fact name="Over the network">
          {bytes(network)}
          {data.role === "source" && network > 0 && logical > network && ` (${ratio(logical / network)})`}
        </Fact>
      </dl>
    </Panel>
  );
}

const MODES: Record<Mode, string> = { async: "asynchronous", sync: "synchronous" };
const LOSSES: Record<OnLinkLoss, string> = { continue: "hosts go on", stop: "writes are refused" };

function FactsPanel({ of: data }: { of: Replication }) {
  return (
    <Panel title="Replication">
      <dl className="facts">
        <Fact name="This array is the">{data.role}</Fact>
        <Fact name="Remote array">{data.remote_array}</Fact>
        <Fact name="Replicated">{subject(data)}</Fact>
        <Fact name="Mode">{MODES[data.mode]}</Fact>
        {data.on_link_loss && !data.witness && <Fact name="While the other array is out of reach">{LOSSES[data.on_link_loss]}</Fact>}
        {data.witness && <Fact name="Witness">{data.witness}</Fact>}
        {data.blackouts.length > 0 && (
          <Fact name="Blackout windows">
            {data.blackouts.map(windowText).map((it) => (
              <div key={it}>{it}</div>
            ))}
          </Fact>
        )}
        {typeof data.keep_points === "number" && <Fact name="Points to retain">{count(data.keep_points)}</Fact>}
        {typeof data.replicate_snapshots === "boolean" && <Fact name="Snapshots of users">{data.replicate_snapshots ? "are replicated" : "are not replicated"}</Fact>}
        {typeof data.keep_snapshots === "number" && <Fact name="Points of snapshots to retain">{count(data.keep_snapshots)}</Fact>}
        {data.keep_rules.length > 0 && <Fact name="And of older ones">{data.keep_rules.map(ruleText).join(", ")}</Fact>}
        {Boolean(data.lock_seconds) && <Fact name="Retention lock">{duration(data.lock_seconds ?? 0)}</Fact>}
        <Fact name="Created">{moment(data.created)}</Fact>
        <Fact name="Identity">{data.id}</Fact>
        {data.promoted_volumes.length > 0 && (
          <Fact name="Promoted volumes">
            <Volumes names={data.promoted_volumes} />
          </Fact>
        )}
        {data.test_volumes.length > 0 && (
          <Fact name="Clones for the test">
            <Volumes names={data.test_volumes} />
          </Fact>
        )}
      </dl>
    </Panel>
  );
}

/** Volumes of this array, with links to their pages. */
function Volumes({ names }: { names: string[] }) {
  return names.map((name) => (
    <div key={name}>
      <RowLink place="volumes" name={name} />
    </div>
  ));
}

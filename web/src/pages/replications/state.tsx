import type { SchemaReplication as Replication, SchemaReplicationState as State } from "../../api/schema";
import { duration } from "../../format";
import { Dot } from "../../parts/dot";

const STATES: Record<State, { color: "teal" | "gray" | "red" | "orange" | "yellow"; label: string }> = {
  idle: { color: "teal", label: "complete" },
  syncing: { color: "teal", label: "syncing" },
  paused: { color: "gray", label: "paused" },
  failed: { color: "orange", label: "failed, is repeated" },
  no_space: { color: "orange", label: "target has no space" },
  demoting: { color: "yellow", label: "demoting" },
  demoted: { color: "yellow", label: "demoted" },
  promoting: { color: "yellow", label: "promoting" },
  promoted: { color: "teal", label: "promoted" },
  split: { color: "red", label: "split" },
  in_sync: { color: "teal", label: "in sync" },
  out_of_sync: { color: "orange", label: "out of sync" },
  writes_stopped: { color: "red", label: "writes stopped" },
};

/** The state as a word, with notes of a demotion that the state does not name, and of a throttled transfer. */
export function stateText({ progress: { state, demotion, throttled } }: Replication): string {
  const label = STATES[state].label + (throttled ? ", throttled" : "");
  if (!demotion || state === "demoting" || state === "demoted") return label;
  return `${label}, ${STATES[demotion === "complete" ? "demoted" : "demoting"].label}`;
}

/** The state of a replication as a word. */
export function StateDot({ of: data }: { of: Replication }) {
  return <Dot color={STATES[data.progress.state].color} label={stateText(data)} />;
}

/** The age of the newest complete point, marked if it exceeds the RPO. */
export function Lag({ of: { progress, rpo_seconds } }: { of: Replication }) {
  if (typeof progress.lag_seconds !== "number") return <span className="quiet">–</span>;
  const text = duration(progress.lag_seconds);
  if (progress.lag_seconds <= rpo_seconds) return <span className="number">{text}</span>;
  return <Dot color={progress.lag_seconds > 2 * rpo_seconds ? "red" : "orange"} label={`${text}, RPO missed`} />;
}

/** The replicated volume or group, by its name on the source. */
export function subject({ group, volume }: Replication): string {
  return group ? `group ${group}` : volume ? `volume ${volume}` : "";
}

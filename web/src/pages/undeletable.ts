/** Why objects can't be deleted at present, and what to do: the rules of the array, looked at before a name has to be typed. */
import { useQuery } from "@tanstack/react-query";
import { replications, schedules } from "../api/queries";
import type { SchemaConnection as Connection, SchemaSnapshot as Snapshot } from "../api/schema";
import { accessorName, moment } from "../format";

/** Null if no host sees it. */
export function connectedText({ name, connections }: { name: string; connections: Connection[] }): string | null {
  return connections.length === 0 ? null : `${name} is connected to ${connections.map(accessorName).join(", ")}: disconnect it first.`;
}

/** A replication or a schedule of a volume or group itself; null if there is none. */
export function useUsedText(kind: "volume" | "group", name: string, enabled: boolean): string | null {
  const replication = useQuery({ ...replications(), enabled }).data?.find((it) => it[kind] === name);
  const schedule = useQuery({ ...schedules(), enabled }).data?.find((it) => it[kind] === name);
  if (replication) return `Replication ${replication.name} replicates it: delete the replication first.`;
  return schedule ? `Schedule ${schedule.name} takes snapshots of it: delete the schedule first.` : null;
}

/** Whether a snapshot is under a retention lock, and can't be deleted by any user. */
export const isLocked = (it: Snapshot) => it.retain_until != null && Date.parse(it.retain_until) > Date.now();

/** Null if a snapshot is under no retention lock. */
export const lockedText = (it: Snapshot) => (isLocked(it) ? `${it.name} is under a retention lock until ${moment(it.retain_until ?? "", true)}.` : null);

/** The protection of a volume's contents over time: schedules, newest snapshot, retention locks. */
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { schedules } from "../../api/queries";
import type { SchemaSchedule as Schedule, SchemaSnapshot as Snapshot, SchemaVolume as Volume } from "../../api/schema";
import { duration, moment, plural } from "../../format";
import { Dot } from "../../parts/dot";
import { Panel } from "../../parts/panel";
import { Rules } from "../schedules/rules";
import { useSnapshotsOf } from "../snapshots/forms";

/** Schedules that take snapshots of a volume or of its group. */
export const schedulesOf = (all: readonly Schedule[], volume: Pick<Volume, "name" | "group">): Schedule[] => all.filter((it) => it.volume === volume.name || (volume.group != null && it.group === volume.group));

/** The retention lock that ends last, if one is in force. */
export function lockedUntil(snapshots: readonly Snapshot[], now = Date.now()): string | undefined {
  const locks = snapshots.map((it) => it.retain_until).filter((it): it is string => it != null && Date.parse(it) > now);
  return locks.sort().at(-1);
}

export function ProtectionPanel({ volume }: { volume: Volume }) {
  const all = useQuery(schedules()).data;
  const snapshots = useSnapshotsOf(volume.name);
  const own = all && schedulesOf(all, volume);
  const active = own?.filter((it) => it.enabled) ?? [];
  const next = active.map((it) => it.next).filter((it): it is string => it != null).sort()[0];
  const newest = snapshots?.[0];
  const lock = snapshots && lockedUntil(snapshots);
  const link = (
    <Link className="plain" href="/schedules">
      Schedules
    </Link>
  );
  return (
    <Panel title="Protection" actions={<Text size="sm">{link}</Text>}>
      <dl className="facts">
        <dt>State</dt>
        <dd>{own && (active.length > 0 ? <Dot color="teal" label="protected by a schedule" /> : <Dot color="orange" label={newest ? "manual snapshots only" : "not protected: no snapshots, no schedule"} />)}</dd>
        <dt>Schedules</dt>
        <dd>{own && (own.length > 0 ? own.map((it) => <ScheduleLine key={it.name} schedule={it} />) : <span className="quiet">none</span>)}</dd>
        <dt>Next snapshot</dt>
        <dd className="number">{next ? moment(next) : <span className="quiet">not scheduled</span>}</dd>
        <dt>Newest snapshot</dt>
        <dd className="number">{newest ? moment(newest.created, true) : <span className="quiet">none</span>}</dd>
        <dt>Snapshots</dt>
        <dd className="number">{snapshots && (snapshots.length > 0 ? plural(snapshots.length, "snapshot") : <span className="quiet">none</span>)}</dd>
        <dt>Retention lock</dt>
        <dd className="number">{lock ? `until ${moment(lock)}` : <span className="quiet">none in force</span>}</dd>
      </dl>
    </Panel>
  );
}

function ScheduleLine({ schedule: { name, rules, enabled, group, immutable_seconds } }: { schedule: Schedule }) {
  return (
    <div>
      {name}: <Rules rules={rules} />
      {group && <span className="quiet"> of group {group}</span>}
      {immutable_seconds > 0 && <span className="quiet">, locked for {duration(immutable_seconds)}</span>}
      {!enabled && <span className="quiet"> (off)</span>}
    </div>
  );
}

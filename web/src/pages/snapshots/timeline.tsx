import { Tooltip } from "@mantine/core";
import { Link } from "wouter";
import type { SchemaSnapshot as Snapshot } from "../../api/schema";
import { moment } from "../../format";
import { Panel } from "../../parts/panel";

/** Largest number of volumes with a line; the table below lists all. */
const LINES = 12;

/** Snapshots of each volume along one axis of time: from the oldest, at the left, to now. */
export function Timeline({ snapshots, now }: { snapshots: Snapshot[]; now: number }) {
  const times = snapshots.map((it) => Date.parse(it.created));
  const first = Math.min(...times, now - 60_000);
  const at = (time: number) => `${((time - first) / (now - first)) * 100}%`;
  const bySource = new Map<string, Snapshot[]>();
  for (const it of snapshots) {
    const source = it.source ?? "deleted volumes";
    bySource.set(source, [...(bySource.get(source) ?? []), it]);
  }
  const lines = [...bySource];
  lines.sort(([, a], [, b]) => b.length - a.length);
  const shown = lines.slice(0, LINES);
  return (
    <Panel title="Timeline">
      <div className="timeline">
        {shown.map(([source, taken]) => (
          <div key={source} style={{ display: "contents" }}>
            <span className="timeline-name">{source}</span>
            <span className="timeline-line">
              {taken.map((it) => (
                <Tooltip key={it.id} label={`${it.name}, ${moment(it.created, true)}`}>
                  <Link className="timeline-dot" data-locked={it.retain_until != null || undefined} href={`/snapshots/${encodeURIComponent(it.name)}`} aria-label={it.name} style={{ left: at(Date.parse(it.created)) }} />
                </Tooltip>
              ))}
            </span>
          </div>
        ))}
        <span />
        <span className="timeline-axis quiet number" aria-hidden>
          <span>{moment(first)}</span>
          <span>now</span>
        </span>
      </div>
      {lines.length > shown.length && <p className="quiet" style={{ margin: "8px 0 0", fontSize: 12 }}>The {LINES} volumes with the most snapshots, of {lines.length}.</p>}
    </Panel>
  );
}

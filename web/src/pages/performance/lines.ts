/** From columns of the array to lines of a chart. */
import type { SchemaPerformance as Performance, SchemaWorkColumns as Work } from "../../api/schema";
import type { Ink, Line } from "../../parts/chart";

export const PERCENTILES = ["mean", "p50", "p95", "p99", "p999", "max"] as const;
export type Percentile = (typeof PERCENTILES)[number];

export const CLASSES = ["read", "write", "offload"] as const;
export type Class = (typeof CLASSES)[number];

/** A line for each class of work; those of the second series are dashed and have its name. */
export function lines(all: { name: string; data: Performance | undefined }[], classes: readonly Class[], values: (work: Work) => (number | null)[]): Line[] {
  const times = all[0]?.data?.times ?? [];
  return all.flatMap(({ name, data }, index) =>
    data ? classes.map((it: Class & Ink) => ({ label: all.length > 1 ? `${name} ${it}` : it, color: it, values: onto(times, data, values(data[it])), dashed: index > 0 })) : [],
  );
}

/** The work of the newest known interval. */
export type Current = { iops: number | null; bytes_per_second: number | null; latency_us: number | null };

const at = (column: readonly (number | null)[], index: number) => column[index] ?? null;

/** Largest number of intervals without data at the end: the second that has just begun is not known yet. */
const LOOK_BACK = 5;

/**
 * The newest values of each class and of all; latency of all is the mean of their commands. Nothing if the newest
 * values are too old.
 */
export function current(data: Performance | undefined): Record<Class | "total", Current> {
  const none: Current = { iops: null, bytes_per_second: null, latency_us: null };
  const index = data ? data.read.iops.findLastIndex((it) => it !== null) : -1;
  if (!data || index < 0 || index < data.times.length - LOOK_BACK) return { read: none, write: none, offload: none, total: none };
  const one = (work: Work): Current => ({ iops: at(work.iops, index), bytes_per_second: at(work.bytes_per_second, index), latency_us: at(work.latency_us.mean, index) });
  const classes = { read: one(data.read), write: one(data.write), offload: one(data.offload) };
  const all = Object.values(classes);
  const sum = (of: (it: Current) => number | null) => all.reduce((sum, it) => sum + (of(it) ?? 0), 0);
  const iops = sum((it) => it.iops);
  const busy = sum((it) => (it.iops ?? 0) * (it.latency_us ?? 0));
  return { ...classes, total: { iops, bytes_per_second: sum((it) => it.bytes_per_second), latency_us: iops > 0 ? busy / iops : null } };
}

/** Values at the times of another answer: the compared answer has slightly different times. */
function onto(times: number[], data: Performance, values: (number | null)[]): (number | null)[] {
  if (data.times === times) return values;
  const at = new Map(data.times.map((time, index) => [time, values[index] ?? null]));
  const width = data.resolution_seconds;
  return times.map((time) => at.get(time) ?? at.get(time - (time % width)) ?? null);
}

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

/** Values at the times of another answer: what is compared was asked for a moment earlier or later. */
function onto(times: number[], data: Performance, values: (number | null)[]): (number | null)[] {
  if (data.times === times) return values;
  const at = new Map(data.times.map((time, index) => [time, values[index] ?? null]));
  const width = data.resolution_seconds;
  return times.map((time) => at.get(time) ?? at.get(time - (time % width)) ?? null);
}

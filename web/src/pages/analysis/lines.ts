/** From columns of the array to lines of a chart. */
import type { SchemaPerformance as Performance, SchemaWorkColumns as Work } from "../../api/schema";
import type { Ink, Line } from "../../parts/chart";

export const PERCENTILES = ["mean", "p50", "p95", "p99", "p999", "max"] as const;
export type Percentile = (typeof PERCENTILES)[number];

export const CLASSES = ["read", "write", "offload"] as const;
export type Class = (typeof CLASSES)[number];

/** A line for each class of work; those of the second series are dashed and have its name. */
export function lines(all: { name: string; data: Performance | undefined }[], classes: readonly Class[], values: (work: Work) => (number | null)[]): Line[] {
  return all.flatMap(({ name, data }, index) =>
    data ? classes.map((it: Class & Ink) => ({ label: all.length > 1 ? `${name} ${it}` : it, color: it, values: values(data[it]), dashed: index > 0 })) : [],
  );
}

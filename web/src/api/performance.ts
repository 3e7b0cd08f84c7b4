/** Queries of the performance history. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answer, api } from "./client";
import { key } from "./keys";
import { pollEvery } from "./stream";

/** The subject of a history: the array, a volume, a host, a volume group, or a controller by its number. */
export type Scope = { kind: "array" } | { kind: "volume" | "host" | "group" | "controller"; name: string };

/** A range of time that ends now, or a range between two times, in seconds. */
export type Stretch = { last: number } | { from: number; to: number };

/** The default selection. */
export const LATELY: Stretch = { last: 300 };

const POINTS = 300;

/** A subject as text in addresses and choices, such as `volume:db1`. */
export const scopeText = (scope: Scope): string => (scope.kind === "array" ? "array" : `${scope.kind}:${scope.name}`);

export function scopeOf(text: string | null): Scope {
  const [, kind, name] = /^(volume|host|group|controller):(.+)$/.exec(text ?? "") ?? [];
  return kind && name ? { kind: kind as "volume", name } : { kind: "array" };
}

/** The range in an address: `from` and `to`, or `last`. */
export function stretchOf(search: URLSearchParams): Stretch {
  const [from, to, last] = ["from", "to", "last"].map((name) => Number.parseInt(search.get(name) ?? "", 10));
  if (from !== undefined && to !== undefined && from >= 0 && to > from) return { from, to };
  return last !== undefined && last > 0 ? { last } : LATELY;
}

export function bounds(stretch: Stretch): { from: number; to: number } {
  if ("from" in stretch) return stretch;
  const now = Math.floor(Date.now() / 1000);
  return { from: now - stretch.last, to: now };
}

function query(scope: Scope, stretch: Stretch, points = POINTS) {
  const range = { ...bounds(stretch), points };
  switch (scope.kind) {
    case "array":
      return range;
    case "controller":
      return { ...range, controller: Number(scope.name) };
    default:
      return { ...range, [scope.kind]: scope.name };
  }
}

/** Milliseconds between two points. */
const interval = ({ last }: { last: number }) => Math.max(2_000, (last * 1000) / POINTS);

/** The refetch interval of a range that ends now: shorter for a shorter range. */
function live(stretch: Stretch) {
  const refetchInterval = "last" in stretch ? interval(stretch) : (false as const);
  return { refetchInterval, placeholderData: keepPreviousData };
}

export const performance = (scope: Scope, stretch: Stretch, points?: number) =>
  queryOptions({
    queryKey: key("performance", "columns", scopeText(scope), stretch, points),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/performance", { params: { query: query(scope, stretch, points) }, signal })),
    ...live(stretch),
    // The stream carries only the seconds of the whole array.
    refetchInterval: ({ state: { data } }) => {
      if (!("last" in stretch)) return false;
      const streamed = scope.kind === "array" && data?.resolution_seconds === 1;
      return pollEvery(interval(stretch), streamed ? 60_000 : interval(stretch))();
    },
  });

export const sizes = (scope: Scope, stretch: Stretch) =>
  queryOptions({
    queryKey: key("performance", "sizes", scopeText(scope), stretch),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/performance/sizes", { params: { query: query(scope, stretch) }, signal }))).items,
    ...live(stretch),
  });

export const latencyMap = (scope: Scope, stretch: Stretch) =>
  queryOptions({
    queryKey: key("performance", "latency", scopeText(scope), stretch),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/performance/latency", { params: { query: query(scope, stretch, 120) }, signal })),
    ...live(stretch),
  });

export const offloads = (scope: Scope, stretch: Stretch) =>
  queryOptions({
    queryKey: key("performance", "offload", scopeText(scope), stretch),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/performance/offload", { params: { query: query(scope, stretch) }, signal }))).items,
    ...live(stretch),
  });

export const offloadHistory = (scope: Scope, stretch: Stretch) =>
  queryOptions({
    queryKey: key("performance", "offload-history", scopeText(scope), stretch),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/performance/offload/history", { params: { query: query(scope, stretch) }, signal })),
    ...live(stretch),
  });

/** The paths of a host in the last five minutes. */
export const paths = (host: string) =>
  queryOptions({
    queryKey: key("performance", "paths", host),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/performance/paths", { params: { query: { host } }, signal })),
    refetchInterval: 5_000,
    placeholderData: keepPreviousData,
  });

export const busiest = (by: "volume" | "host" | "controller") =>
  queryOptions({
    queryKey: key("performance", "top", by),
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/performance/top", { params: { query: { by, limit: 10 } }, signal }))).items,
    refetchInterval: 2_000,
    placeholderData: keepPreviousData,
  });

export const capacity = (last: number) =>
  queryOptions({
    queryKey: key("capacity", last),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/capacity", { params: { query: { ...bounds({ last }), points: 200 } }, signal })),
    refetchInterval: 60_000,
    placeholderData: keepPreviousData,
  });

export const replicationHistory = (name: string, stretch: Stretch) =>
  queryOptions({
    queryKey: key("replication-history", name, stretch),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/replications/{name}/history", { params: { path: { name }, query: { ...bounds(stretch), points: 300 } }, signal })),
    refetchInterval: 30_000,
    placeholderData: keepPreviousData,
  });

/** The history as rows for a spreadsheet; the first column is the subject. */
export async function performanceCsv(scopes: Scope[], stretch: Stretch): Promise<Blob> {
  const fixed = bounds(stretch);
  const tables = await Promise.all(
    scopes.map(async (scope) => {
      const asked = api.GET("/api/v1/performance", { params: { query: { ...query(scope, fixed, 3600), format: "csv" } }, parseAs: "text" });
      return (await answer(asked)) as unknown as string;
    }),
  );
  return new Blob([labelled(tables.map((text, at) => [scopes[at] ?? { kind: "array" }, text]))], { type: "text/csv" });
}

/** Joins tables of the same columns. Names of the array need no quotes in CSV. */
export function labelled(tables: [Scope, string][]): string {
  const rows = tables.flatMap(([scope, text], at) => {
    const [heading, ...rows] = text.split("\r\n").filter((it) => it !== "");
    const of = scope.kind === "array" ? "array" : scope.name;
    return [...(at === 0 ? [`of,${heading}`] : []), ...rows.map((it) => `${of},${it}`)];
  });
  return rows.map((it) => `${it}\r\n`).join("");
}

/** Subscription to the event stream of the array. Pages poll without it; with it they fetch changed objects. */
import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import type { SchemaChange as Change, SchemaPerformance as Performance, SchemaTopic as Topic, SchemaWork as Work, SchemaWorkColumns as WorkColumns } from "./schema";
import type { Key } from "./keys";
import { alive } from "./pulse";
import { session } from "./session";

/** Performance of the array in one second. */
export type Point = { time: number; read: Work; write: Work; offload: Work };
export type StreamEvent = { name: string; data: string };

/** Milliseconds until the page reopens a broken stream. */
const RETRY_MS = 3_000;

let connected = false;

/** Polling interval in milliseconds: the first without the stream, the second while it is connected. */
export const pollEvery = (polling: number, streaming: number) => () => (connected ? streaming : polling);

/** Subscribes while the page is visible: a browser has few connections to one array for all of its tabs. */
export function useStream(): void {
  const client = useQueryClient();
  useEffect(() => {
    let listening: AbortController | undefined;
    const update = () => {
      if (document.visibilityState === "hidden") listening?.abort();
      else if (!listening || listening.signal.aborted) {
        listening = new AbortController();
        void listen(client, listening.signal);
      }
    };
    update();
    document.addEventListener("visibilitychange", update);
    return () => {
      document.removeEventListener("visibilitychange", update);
      listening?.abort();
    };
  }, [client]);
}

async function listen(client: QueryClient, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await receive(client, signal);
    } catch {
      // Pages poll until the stream is back.
    }
    if (connected) {
      connected = false;
      void client.invalidateQueries();
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** Reads one stream until its end. */
async function receive(client: QueryClient, signal: AbortSignal): Promise<void> {
  const token = session.token();
  const response = await fetch("/api/v1/stream", { signal, headers: token ? { authorization: `Bearer ${token}` } : {} });
  if (response.status === 401) session.ended();
  if (!response.ok || !response.body) return;
  connected = true;
  // Refetch the objects that changed before the stream was open.
  void client.invalidateQueries();
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    const cut = parseEvents(rest + decoder.decode(value, { stream: true }));
    rest = cut.rest;
    for (const it of cut.complete) dispatch(client, it);
  }
}

/** The complete events of a text of server-sent events, and the rest. */
export function parseEvents(text: string): { complete: StreamEvent[]; rest: string } {
  const blocks = text.split(/\r?\n\r?\n/);
  const rest = blocks.pop() ?? "";
  const field = (block: string, name: string) =>
    block
      .split(/\r?\n/)
      .filter((line) => line.startsWith(`${name}:`))
      .map((line) => line.slice(name.length + 1).replace(/^ /, ""))
      .join("\n");
  const complete = blocks.map((block) => ({ name: field(block, "event"), data: field(block, "data") }));
  return { complete: complete.filter(({ data }) => data !== ""), rest };
}

/** Milliseconds in which changes are batched: a hundred changes become one request. */
const BATCH_MS = 200;
let changed = new Set<Key>();

function refetch(client: QueryClient, ...keys: readonly Key[]): void {
  if (changed.size === 0) {
    setTimeout(() => {
      for (const key of changed) void client.invalidateQueries({ queryKey: [key] });
      changed = new Set();
    }, BATCH_MS);
  }
  for (const key of keys) changed.add(key);
}

/** Queries that show or count objects of a kind, in addition to their own list and pages; refetched when they change. */
export const DEPENDENTS: Partial<Record<Topic, readonly Key[]>> = {
  connections: ["volumes", "snapshots", "hosts", "host-groups"],
  controllers: ["store"],
  drives: ["protection", "array", "store"],
  groups: ["volumes", "schedules"],
  "host-groups": ["hosts", "volumes", "snapshots"],
  hosts: ["host-groups", "volumes", "snapshots", "array"],
  portals: ["array", "controllers"],
  "recycle-bin": ["array"],
  "remote-arrays": ["replications"],
  settings: ["array"],
  snapshots: ["volumes", "schedules", "array"],
  users: ["tokens"],
  volumes: ["groups", "hosts", "host-groups", "snapshots", "schedules", "array"],
};

/** Queries that are refetched when objects of a kind change. */
export const stale = (topic: Topic): readonly Key[] => [...(topic === "connections" ? [] : [topic]), ...(DEPENDENTS[topic] ?? [])];

function dispatch(client: QueryClient, { name, data }: StreamEvent): void {
  switch (name) {
    case "performance": {
      const point = JSON.parse(data) as Point;
      client.setQueriesData<Performance>({ queryKey: ["performance", "columns", "array"], predicate: ({ queryKey }) => isLive(queryKey[3]) }, (known) => known && extended(known, point));
      break;
    }
    case "event":
      refetch(client, "events", "audit");
      break;
    case "change":
      refetch(client, ...stale((JSON.parse(data) as Change).noun));
      break;
    case "alert":
      refetch(client, "alerts");
      break;
    case "job":
      refetch(client, "jobs", "drives", "protection");
      break;
    default:
      void client.invalidateQueries();
  }
}

/** Whether a range of time ends now. */
const isLive = (range: unknown) => typeof range === "object" && range !== null && "last" in range;

/** Largest gap between two points that is filled with empty columns, in seconds; after a larger one columns are refetched. */
const MAX_GAP_SECONDS = 10;

/**
 * Appends a point to columns of one second each and drops the oldest. Columns of another step and old points change
 * nothing.
 */
export function extended(known: Performance, point: Point): Performance {
  const last = known.times.at(-1);
  if (known.resolution_seconds !== 1 || last === undefined || point.time <= last || point.time > last + MAX_GAP_SECONDS) return known;
  const missing = point.time - last - 1;
  const next = <T>(column: T[], value: T, nothing: T): T[] => [...column, ...Array.from({ length: missing }, () => nothing), value].slice(missing + 1);
  const columns = (column: WorkColumns, work: Work): WorkColumns => {
    const { mean, p50, p95, p99, p999, max } = column.latency_us;
    const now = work.latency_us;
    return {
      iops: next(column.iops, work.iops, null),
      bytes_per_second: next(column.bytes_per_second, work.bytes_per_second, null),
      failures: next(column.failures, work.failures, null),
      latency_us: {
        mean: next(mean, now.mean ?? null, null),
        p50: next(p50, now.p50 ?? null, null),
        p95: next(p95, now.p95 ?? null, null),
        p99: next(p99, now.p99 ?? null, null),
        p999: next(p999, null, null),
        max: next(max, now.max ?? null, null),
      },
    };
  };
  const times = [...known.times, ...Array.from({ length: missing + 1 }, (_, index) => last + 1 + index)].slice(missing + 1);
  return { ...known, times, read: columns(known.read, point.read), write: columns(known.write, point.write), offload: columns(known.offload, point.offload) };
}

import { expect, test } from "vitest";
import { noWork } from "../../mock/array";
import type { SchemaPerformance as Performance, SchemaWork as Work } from "./schema";
import { extended, parseEvents, stale } from "./stream";

const work = (iops: number): Work => ({ iops, bytes_per_second: iops * 4096, failures: 0, latency_us: { mean: 100, p50: null, p95: null, p99: null, max: null } });
const point = (time: number, iops: number) => ({ time, read: work(iops), write: work(0), offload: work(0) });

function seconds(...times: number[]): Performance {
  const column = () => times.map((time) => time as number | null);
  const columns = () => ({ iops: column(), bytes_per_second: column(), failures: column(), latency_us: { mean: column(), p50: column(), p95: column(), p99: column(), p999: column(), max: column() } });
  return { resolution_seconds: 1, times, read: columns(), write: columns(), offload: columns() };
}

test("complete events are parsed from a partial text", () => {
  expect(parseEvents("event: change\ndata: {\"noun\":\"volumes\"}\n\n: alive\n\nevent: ev")).toEqual({
    complete: [{ name: "change", data: '{"noun":"volumes"}' }],
    rest: "event: ev",
  });
});

test("what a change concerns is fetched again: the objects themselves, and what shows or counts them", () => {
  expect(stale("certificate")).toEqual(["certificate"]);
  expect(stale("drives")).toEqual(["drives", "protection", "array", "store"]);
  expect(stale("connections")).toEqual(["volumes", "snapshots", "hosts", "host-groups"]);
});

test("a second is appended to the others, and the first goes", () => {
  const now = extended(seconds(10, 11, 12), point(13, 7));
  expect(now.times).toEqual([11, 12, 13]);
  expect(now.read.iops).toEqual([11, 12, 7]);
  expect(now.read.latency_us.mean).toEqual([11, 12, 100]);
});

test("seconds that are missing are shown as missing", () => {
  const now = extended(seconds(10, 11, 12), point(14, 7));
  expect(now.times).toEqual([12, 13, 14]);
  expect(now.write.iops).toEqual([12, null, 0]);
});

test("what is no news, too far away or of another length changes nothing", () => {
  const known = seconds(10, 11, 12);
  expect(extended(known, point(12, 7))).toBe(known);
  expect(extended(known, point(100, 7))).toBe(known);
  const tens = { ...known, resolution_seconds: 10 };
  expect(extended(tens, point(13, 7))).toBe(tens);
  const nothing = { ...known, times: [], read: noWork() };
  expect(extended(nothing, point(13, 7))).toBe(nothing);
});

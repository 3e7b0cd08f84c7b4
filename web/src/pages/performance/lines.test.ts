import { expect, test } from "vitest";
import { noWork } from "../../../mock/array";
import type { SchemaPerformance as Performance } from "../../api/schema";
import { labelled, stretchOf } from "../../api/performance";
import { current, lines } from "./lines";

const series = (times: number[], iops: number[], resolution_seconds = 1): Performance => ({
  resolution_seconds,
  times,
  read: { ...noWork(), iops },
  write: noWork(),
  offload: noWork(),
});

test("what is compared lies at its own times, though it was asked for later", () => {
  const all = [
    { name: "a", data: series([100, 101, 102], [1, 2, 3]) },
    { name: "b", data: series([101, 102, 103], [20, 30, 40]) },
  ];
  const drawn = lines(all, ["read"], (work) => work.iops);
  expect(drawn.map((it) => [it.label, it.values])).toEqual([
    ["a read", [1, 2, 3]],
    ["b read", [null, 20, 30]],
  ]);
});

test("what is coarser is drawn as long as it was", () => {
  const all = [
    { name: "a", data: series([98, 99, 100, 101], [1, 2, 3, 4]) },
    { name: "b", data: series([90, 100], [20, 30], 10) },
  ];
  expect(lines(all, ["read"], (work) => work.iops)[1]?.values).toEqual([20, 20, 30, 30]);
});

test("the time is read from an address, and what is none of it is left out", () => {
  const of = (text: string) => stretchOf(new URLSearchParams(text));
  expect(of("from=100&to=200")).toEqual({ from: 100, to: 200 });
  expect(of("last=3600")).toEqual({ last: 3600 });
  for (const none of ["", "from=200&to=100", "from=x&to=y", "last=-5", "from=100"]) expect(of(none)).toEqual({ last: 300 });
});

test("tables of two are one, with a column that says whose a row is", () => {
  const rows = (value: string) => `time,read_iops\r\n2026-01-01T00:00:00Z,${value}\r\n`;
  expect(labelled([[{ kind: "array" }, rows("1")]])).toBe("of,time,read_iops\r\narray,2026-01-01T00:00:00Z,1\r\n");
  const both = labelled([[{ kind: "volume", name: "db1" }, rows("1")], [{ kind: "host", name: "web1" }, rows("2")]]);
  expect(both).toBe("of,time,read_iops\r\ndb1,2026-01-01T00:00:00Z,1\r\nweb1,2026-01-01T00:00:00Z,2\r\n");
});

test("the current values are the newest that are known; latency of all commands is weighted by their number", () => {
  const work = (iops: (number | null)[], mean: (number | null)[]) => ({ ...noWork(), iops, bytes_per_second: iops, latency_us: { ...noWork().latency_us, mean } });
  const data: Performance = { resolution_seconds: 1, times: [1, 2, 3], read: work([10, 30, null], [1, 100, null]), write: work([0, 10, null], [null, 500, null]), offload: work([0, 0, null], [null, null, null]) };
  expect(current(data).total).toEqual({ iops: 40, bytes_per_second: 40, latency_us: 200 });
  expect(current(data).read.iops).toBe(30);
  expect(current(data).offload.latency_us).toBeNull();
  expect(current(undefined).total.iops).toBeNull();
});

test("what is too old is not current", () => {
  const times = Array.from({ length: 20 }, (_, index) => index);
  const iops = times.map((it) => (it < 5 ? 7 : null));
  expect(current({ resolution_seconds: 1, times, read: { ...noWork(), iops }, write: noWork(), offload: noWork() }).total.iops).toBeNull();
});

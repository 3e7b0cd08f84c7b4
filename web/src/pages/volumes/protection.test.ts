import { expect, test } from "vitest";
import type { SchemaSchedule as Schedule, SchemaSnapshot as Snapshot } from "../../api/schema";
import { lockedUntil, schedulesOf } from "./protection";

test("a volume is protected by schedules of its own and of its group", () => {
  const all = [{ name: "a", volume: "db" }, { name: "b", group: "sql" }, { name: "c", volume: "other" }, { name: "d", group: "web" }] as Schedule[];
  expect(schedulesOf(all, { name: "db", group: "sql" }).map((it) => it.name)).toEqual(["a", "b"]);
  expect(schedulesOf(all, { name: "db", group: null }).map((it) => it.name)).toEqual(["a"]);
});

test("the lock that ends last is in force; one that is over is none", () => {
  const until = (...times: (string | null)[]) => times.map((retain_until) => ({ retain_until })) as Snapshot[];
  const now = Date.parse("2026-10-01T00:00:00Z");
  expect(lockedUntil(until("2026-10-02T00:00:00Z", null, "2026-10-05T00:00:00Z"), now)).toBe("2026-10-05T00:00:00Z");
  expect(lockedUntil(until("2026-09-02T00:00:00Z", null), now)).toBeUndefined();
});

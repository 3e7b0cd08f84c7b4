import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { documentation } from "./alerts/documentation";
import { placeOf } from "./place";

const messages = JSON.parse(readFileSync("../docs/monitoring/messages.json", "utf8")) as Record<"alerts" | "events", { id: string }[]>;

test("what an alert or event is about has its page", () => {
  expect(placeOf({ kind: "host.one-path", noun: "host", name: "esx 1" })).toEqual({ path: "/hosts/esx%201", label: "esx 1" });
  expect(placeOf({ kind: "drive.failed", noun: "drive", name: "3" })?.path).toBe("/drives");
  expect(placeOf({ kind: "notification.failing", noun: "notification target", name: "ops" })?.path).toBe("/settings/notifications");
  expect(placeOf({ kind: "replication.rpo", noun: "replication", name: "sql" })?.path).toBe("/replications/sql");
  expect(placeOf({ kind: "clock.jumped", noun: null, name: null })).toBeNull();
  expect(placeOf({ kind: "volume.deleted", noun: "volume", name: "sql" })).toBeNull();
});

test("every alert has a page of the documentation that exists", () => {
  expect(messages.alerts.length).toBeGreaterThan(40);
  for (const { id } of messages.alerts) {
    expect(documentation(id), id).toBeTruthy();
    expect(existsSync(`../docs/operating/${documentation(id)}`), id).toBe(true);
  }
});

import { expect, test } from "vitest";
import type { SchemaAlert, SchemaProtection as Protection } from "../../api/schema";
import { level } from "./capacity";
import { attention, protectionText } from "./state";

const alert = (id: number, change: Partial<SchemaAlert>): SchemaAlert => ({ id, kind: "k", state: "open", severity: "warning", message: "m", noun: null, name: null, opened: `2026-10-01T08:00:0${id}Z`, changed: "", acknowledged_by: null, closed: null, ...change });
const protection = (change: Partial<Protection>): Protection => ({ tolerates: 2, promises: 2, parity_bytes: 0, segments: 1, segments_at_risk: 0, rebuilt: 0, repaired: 0, lost: 0, former_members: [], scrub: null, next_scrub: null, ...change });

test("the most severe alert comes first, then the newest; what is closed or only information needs no attention", () => {
  const all = [alert(1, {}), alert(2, { state: "closed", severity: "critical" }), alert(3, { severity: "critical" }), alert(4, { state: "acknowledged" }), alert(5, { severity: "info" })];
  expect(attention(all).map((it) => it.id)).toEqual([3, 4, 1]);
});

test("protection is bad as soon as fewer drives may fail than designed", () => {
  expect(protectionText(protection({}))).toEqual({ bad: false, text: "Any 2 drives may fail without data loss." });
  expect(protectionText(protection({ tolerates: 1 }))).toMatchObject({ bad: true });
  expect(protectionText(protection({ tolerates: 0 })).text).toContain("No redundancy");
  expect(protectionText(protection({ lost: 3 }))).toMatchObject({ bad: true });
  expect(protectionText(protection({ tolerates: 0, promises: 0 }))).toMatchObject({ bad: false });
});

test("capacity has the colours of the thresholds at which the array raises alerts", () => {
  expect([0, 0.69, 0.7, 0.89, 0.9, 1].map(level)).toEqual(["normal", "normal", "warning", "warning", "critical", "critical"]);
});

import { expect, test } from "vitest";
import { replication } from "../../../mock/array";
import { stateText } from "./state";
import { verbs } from "./tasks";

test("each state offers what the array would not refuse", () => {
  expect(verbs(replication("prod", "source", "idle"))).toEqual(["Demote", "Delete"]);
  expect(verbs(replication("prod", "source", "demoted"))).toEqual(["Promote", "Delete"]);
  expect(verbs(replication("prod", "target", "idle"))).toEqual(["Test failover", "Promote", "Delete"]);
  expect(verbs(replication("prod", "target", "promoted"))).toEqual(["Test failover", "Reverse", "Demote", "Delete"]);
  expect(verbs(replication("prod", "target", "split"))).toEqual(["Test failover", "Demote", "Delete"]);
  const tested = { ...replication("prod", "target", "idle"), test_volumes: ["db1-test"] };
  expect(verbs(tested)).toEqual(["Stop test", "Promote", "Delete"]);
  const first = replication("prod", "target", "syncing");
  expect(verbs({ ...first, progress: { ...first.progress, last_point: null } })).toEqual(["Delete"]);
});

test("a demotion is seen in every state", () => {
  for (const state of ["failed", "no_space", "paused"] as const) {
    const data = replication("prod", "source", state);
    const demoting = { ...data, progress: { ...data.progress, demotion: "incomplete" as const } };
    expect(stateText(demoting)).toBe(`${stateText(data)}, demoting`);
    expect(verbs(demoting)).toEqual(["Promote", "Delete"]);
  }
  expect(stateText(replication("prod", "source", "demoting"))).toBe("demoting");
  expect(stateText(replication("prod", "source", "idle"))).toBe("complete");
});

test("a transfer that is slowed down beside hosts is called throttled", () => {
  const data = replication("prod", "source", "syncing");
  expect(stateText({ ...data, progress: { ...data.progress, throttled: true } })).toBe("syncing, throttled");
});

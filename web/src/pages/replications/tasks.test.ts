import { expect, test } from "vitest";
import { replication } from "../../../mock/array";
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

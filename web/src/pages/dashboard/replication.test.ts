import { expect, test } from "vitest";
import { replication } from "../../../mock/array";
import { worstFirst } from "./replication";

test("what is split comes first, then what fails, then the largest lag of its RPO", () => {
  const lag = (name: string, state: Parameters<typeof replication>[2], seconds: number) => {
    const made = replication(name, "source", state);
    return { ...made, progress: { ...made.progress, lag_seconds: seconds } };
  };
  const all = [lag("fresh", "idle", 10), lag("old", "idle", 900), lag("failed", "failed", 20), lag("split", "split", 0)];
  expect(worstFirst(all).map((it) => it.name)).toEqual(["split", "failed", "old", "fresh"]);
});

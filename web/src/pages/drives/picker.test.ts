import { expect, test } from "vitest";
import type { SchemaAvailableDrive as Available } from "../../api/schema";
import { conditionOf } from "./picker";

const drive = (change: Partial<Available>): Available => ({ path: "/dev/sdb", size: 1, model: null, serial: null, users: [], contents: [], problem: null, ...change });

test("a drive is offered as what it is", () => {
  expect(conditionOf(drive({})).kind).toBe("blank");
  expect(conditionOf(drive({ contents: ["ext4 at byte 1080"] }))).toMatchObject({ kind: "overwrite", text: "Not blank: ext4 at byte 1080. It would be destroyed." });
  expect(conditionOf(drive({ contents: ["ext4"], users: ["sdb1 is mounted at /"] })).kind).toBe("used");
  expect(conditionOf(drive({ problem: "wipefs took too long" })).kind).toBe("unknown");
});

import { expect, test } from "vitest";
import { partOf } from "./list";

const FIRST = { words: "", chosen: {}, column: "Name", down: false, page: 1 };

test("the array is asked for one page of the volumes", () => {
  expect(partOf(FIRST)).toEqual({ limit: 50, offset: 0, sort: "name" });
  expect(partOf({ ...FIRST, column: "Mapped", down: true, page: 3 })).toEqual({ limit: 50, offset: 100, sort: "-mapped,name" });
  expect(partOf({ ...FIRST, words: " sql 01 " })).toEqual({ limit: 50, offset: 0, sort: "name", search: "sql 01" });
});

test("a choice of a filter is a value and no pattern", () => {
  expect(partOf({ ...FIRST, chosen: { Group: "sql", Host: "" } }).filter).toBe("group=sql");
  expect(partOf({ ...FIRST, chosen: { Host: "a*,b", "Host group": "cluster" } }).filter).toBe("connections.host=a\\*\\,b,connections.host_group=cluster");
});

test("a label is a condition of its own, and no field", () => {
  const part = partOf({ ...FIRST, chosen: { Group: "sql", Label: "note=a,b\\c" } });
  expect(part.filter).toBe("group=sql");
  expect(part.label).toBe("note=a\\,b\\\\c");
});

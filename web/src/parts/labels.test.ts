import { expect, test } from "vitest";
import { labelsChange, parseLabels } from "./labels";

test("labels are one per line, and what is not a label is refused", () => {
  expect(parseLabels(" tier=gold \n\nnote=a=b\nempty=")).toEqual({ tier: "gold", note: "a=b", empty: "" });
  expect(parseLabels("tier")).toBeNull();
  expect(parseLabels("=x")).toBeNull();
  expect(parseLabels("")).toEqual({});
});

test("a label that is gone from the text is removed", () => {
  expect(labelsChange({ a: "1", b: "2" }, { b: "3", c: "4" })).toEqual({ a: null, b: "3", c: "4" });
});

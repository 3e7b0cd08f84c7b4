import { expect, test } from "vitest";
import { dataOf, rangeOf } from "./chart";

test("a gap in the times is a gap in every line", () => {
  const lines = [{ values: [1, 2, 3, 4] }, { values: [5, null, 7, 8] }];
  expect(dataOf({ times: [10, 11, 12, 13], lines })).toEqual([[10, 11, 12, 13], [1, 2, 3, 4], [5, null, 7, 8]]);
  expect(dataOf({ times: [10, 11, 60, 61], lines })).toEqual([[10, 11, 12, 60, 61], [1, 2, null, 3, 4], [5, null, null, 7, 8]]);
  expect(dataOf({ times: [], lines: [] })).toEqual([[]]);
});

test("a chart spans its period, however much of it is known", () => {
  expect(rangeOf({ last: 300 }, 1000)).toEqual([700, 1000]);
  expect(rangeOf({ from: 5, to: 25 }, 1000)).toEqual([5, 25]);
});

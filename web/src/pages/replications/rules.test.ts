import { expect, test } from "vitest";
import { parseRules, ruleText } from "./rules";

test("a rule is a time and a number on a line", () => {
  const found = parseRules("daily=7\n\n0 */4 * * * = 12 ");
  expect(found).toEqual([
    { when: "daily", keep: 7 },
    { when: "0 */4 * * *", keep: 12 },
  ]);
  expect(found?.map(ruleText)).toEqual(["daily=7", "0 */4 * * *=12"]);
  for (const wrong of ["daily", "daily=", "=7", "daily=many", "daily=12345"]) expect(parseRules(wrong), wrong).toBeUndefined();
});

import { expect, test } from "vitest";
import { limitText, parseLimits, parseWindows, windowText } from "./windows";

test("a window is days and times on a line", () => {
  const found = parseWindows("mon-fri 08:00-18:00\n\n sat,sun  0:00-00:00 \nFri-Mon 22:00-06:00\ndaily 1:00-2:00");
  expect(found?.map(({ days }) => days.length)).toEqual([5, 2, 4, 7]);
  expect(found?.map(windowText)).toEqual(["mon-fri 08:00-18:00", "sat-sun 0:00-00:00", "mon,fri-sun 22:00-06:00", "daily 1:00-2:00"]);
  expect(parseWindows("")).toEqual([]);
  for (const wrong of ["mon", "mon 8:00", "mon 8:00-24:00", "moon 8:00-9:00", "mon 8:00-9:00 x", "mon-tue-wed 8:00-9:00", "mon 8:0-9:00"]) expect(parseWindows(wrong), wrong).toBeUndefined();
});

test("a limit follows the times", () => {
  const found = parseLimits("mon-fri 08:00-18:00 = 10 MiB\ndaily 22:00-06:00=none");
  expect(found?.map(({ limit }) => limit)).toEqual([10 * 1024 ** 2, null]);
  expect(found?.map(limitText)).toEqual(["mon-fri 08:00-18:00 = 10 MiB", "daily 22:00-06:00 = none"]);
  for (const wrong of ["mon 8:00-9:00", "mon 8:00-9:00 = much", "mon 8:00-9:00 = 1 MB = 2 MB"]) expect(parseLimits(wrong), wrong).toBeUndefined();
});

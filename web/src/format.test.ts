import { expect, test } from "vitest";
import { bytes, duration, parseBytes, percent, ratio, seer } from "./format";

test("sizes have three digits and are never rounded up", () => {
  const cases: [number, string][] = [
    [0, "0 B"],
    [512, "512 B"],
    [1024, "1 KiB"],
    [1536 * 1024 ** 3, "1.5 TiB"],
    [1024 ** 4 - 1, "1,023 GiB"],
    [2 ** 54, "16 PiB"],
    [1.999 * 1024 ** 3, "1.99 GiB"],
  ];
  for (const [value, text] of cases) expect(bytes(value)).toBe(text);
});

test("sizes are read as people write them", () => {
  const cases: [string, number | undefined][] = [
    ["1 TiB", 1024 ** 4],
    ["1.5t", 1.5 * 1024 ** 4],
    ["512MB", 512 * 1024 ** 2],
    ["10", 10 * 1024 ** 3],
    [" 2 gib ", 2 * 1024 ** 3],
    ["", undefined],
    ["-1 GiB", undefined],
    ["1 GiB more", undefined],
    ["99999999999 TiB", undefined],
  ];
  for (const [text, value] of cases) expect(parseBytes(text), text).toBe(value);
});

test("ratios, shares and times", () => {
  expect([ratio(null), ratio(1), ratio(3.29), ratio(1234.5)]).toEqual(["–", "1.0 : 1", "3.2 : 1", "1,234 : 1"]);
  expect([percent(0), percent(0.0001), percent(0.034), percent(0.5)]).toEqual(["0 %", "< 0.1 %", "3.4 %", "50 %"]);
  expect([duration(0), duration(59), duration(3600), duration(90_061)]).toEqual(["0 s", "59 s", "1 h", "1 d 1 h"]);
});

test("a host group that sees a volume is told from a host", () => {
  expect(seer({ host: "esx1" })).toBe("esx1");
  expect(seer({ host: null, host_group: "cluster" })).toBe("group cluster");
});

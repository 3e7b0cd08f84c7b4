import { expect, test } from "vitest";
import { accessorName, bytes, duration, exactBytes, parseBytes, percent, ratio } from "./format";
import { sizeError } from "./parts/size-input";

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
    ["1B", 1],
    ["1KB", 1_000],
    ["1kB", 1_000],
    ["1KiB", 1024],
    ["1MB", 1_000_000],
    ["1MiB", 1024 ** 2],
    ["1GB", 1_000_000_000],
    ["1GiB", 1024 ** 3],
    ["1TB", 1_000_000_000_000],
    ["1PB", 1_000_000_000_000_000],
    ["1PiB", 1024 ** 5],
    ["16 PiB", 16 * 1024 ** 5],
    ["15.5 PiB", 15.5 * 1024 ** 5],
    ["1K", 1024],
    ["1m", 1024 ** 2],
    ["10G", 10 * 1024 ** 3],
    ["2T", 2 * 1024 ** 4],
    ["1.5t", 1.5 * 1024 ** 4],
    ["1.5TB", 1_500_000_000_000],
    ["512MB", 512_000_000],
    [" 2 gib ", 2 * 1024 ** 3],
    // The command line and the API take a bare number for bytes, so it is nothing that could mean something else.
    ["10", undefined],
    ["1X", undefined],
    ["1iB", undefined],
    ["", undefined],
    ["-1 GiB", undefined],
    ["1 GiB more", undefined],
    ["99999999999 TiB", undefined],
  ];
  for (const [text, value] of cases) expect(parseBytes(text), text).toBe(value);
});

test("a size in a field is exact, so that saving it changes nothing", () => {
  const cases: [number, string][] = [
    [1024 ** 4, "1 TiB"],
    [1_000_000_000_000, "1 TB"],
    [500_000_000_000, "500 GB"],
    [1025, "1025 B"],
    [1_536 * 1024 ** 3, "1536 GiB"],
    [0, "0 B"],
  ];
  for (const [value, text] of cases) expect([exactBytes(value), parseBytes(text)]).toEqual([text, value]);
});

test("a size of a volume is refused with the range and what to write", () => {
  expect(sizeError("16 PiB")).toBeNull();
  expect(sizeError("17 PiB")).toBe("The size must be from 1 MiB to 16 PiB.");
  expect(sizeError("1 KiB")).toContain("from 1 MiB to 16 PiB");
  expect(sizeError("much")).toContain("from 1 MiB to 16 PiB");
  expect(sizeError("1.1 TiB")).toContain("1209462790144 B");
});

test("ratios, shares and times", () => {
  expect([ratio(null), ratio(1), ratio(3.29), ratio(0.96), ratio(1234.5)]).toEqual(["–", "1.0 : 1", "3.3 : 1", "1.0 : 1", "1,235 : 1"]);
  expect([percent(0), percent(0.0001), percent(0.034), percent(0.5)]).toEqual(["0 %", "< 0.1 %", "3.4 %", "50 %"]);
  expect([duration(0), duration(59), duration(3600), duration(90_061)]).toEqual(["0 s", "59 s", "1 h", "1 d 1 h"]);
});

test("a connected host group is distinguished from a host", () => {
  expect(accessorName({ host: "esx1" })).toBe("esx1");
  expect(accessorName({ host: null, host_group: "cluster" })).toBe("group cluster");
});

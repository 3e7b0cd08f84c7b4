/** The performance page: history, zoom, comparison and export. */
import { readFileSync } from "node:fs";
import type { Locator, Page } from "@playwright/test";
import { expect, test, type RunningArray } from "./array";

const HOST = "iqn.1993-08.org.debian:01:web1";

/** Two volumes: the first is written much, the second once, and read. */
async function busy(array: RunningArray) {
  await array.ask("POST", "hosts", { name: "web1", initiators: [HOST] });
  for (const name of ["db1", "db2"]) {
    await array.ask("POST", "volumes", { name, size: 2 ** 30 });
    await array.ask("POST", "connections", { volume: name, host: "web1" });
  }
  await array.work(HOST, 0, Array.from({ length: 32 }, (_, at) => `write -P ${at + 1} ${at * 64}k 64k`));
  // QEMU does not read what was never written, so there is something to read.
  await array.work(HOST, 1, ["write -P 7 0 64k", ...Array.from({ length: 16 }, (_, at) => `read ${at * 4}k 4k`)]);
}

const panel = (page: Page, title: string) => page.getByRole("region", { name: title, exact: true });

/** Chooses in one of the two lists above the charts. */
async function choose(page: Page, list: string, name: string) {
  await page.getByRole("combobox", { name: list, exact: true }).click();
  await page.getByRole("option", { name, exact: true }).click();
}

/** What is shown of the time, in seconds since 1970: the times that the charts were asked for. */
async function asked(page: Page, act: () => Promise<void>): Promise<{ from: number; to: number }> {
  const request = page.waitForRequest((it) => it.url().includes("/api/v1/performance?"));
  await act();
  const words = new URL((await request).url()).searchParams;
  return { from: Number(words.get("from")), to: Number(words.get("to")) };
}

/** How many pixels of a canvas are not as its ground: what was drawn. */
const drawn = (canvas: Locator) =>
  canvas.evaluate((it) => {
    const element = it as HTMLCanvasElement;
    const bytes = element.getContext("2d")?.getImageData(0, 0, element.width, element.height).data ?? new Uint8ClampedArray();
    let pixels = 0;
    for (let at = 3; at < bytes.length; at += 4) if (bytes[at] !== 0) pixels += 1;
    return pixels;
  });

test("a stretch of time is zoomed into by dragging and by buttons, moved, and left again", async ({ array, open, page }) => {
  await busy(array);
  await open("/performance");
  await expect(panel(page, "IOPS").locator(".u-legend")).toContainText("write");
  await expect(page.getByText(/≤ 64(\.0)? KiB/)).toBeVisible();
  const chart = panel(page, "IOPS").locator(".u-over");
  const box = await chart.boundingBox();
  if (!box) throw new Error("there is no chart");
  const drag = async () => {
    await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.75, box.y + box.height / 2, { steps: 5 });
    await page.mouse.up();
  };
  const zoomed = await asked(page, drag);
  // A quarter of five minutes, give or take the pixels and the seconds that the axis lags.
  expect(zoomed.to - zoomed.from).toBeGreaterThanOrEqual(60);
  expect(zoomed.to - zoomed.from).toBeLessThanOrEqual(90);
  const back = page.getByRole("button", { name: "Back to now" });
  await expect(back).toBeVisible();
  const press = (name: string) => asked(page, () => page.getByRole("button", { name, exact: true }).click());

  const earlier = await press("Earlier");
  expect(earlier.to - earlier.from).toBe(zoomed.to - zoomed.from);
  expect(earlier.from).toBeLessThan(zoomed.from);
  expect(earlier.to).toBeGreaterThan(zoomed.from);
  const wider = await press("Zoom out");
  expect(wider.from).toBeLessThan(earlier.from);
  expect(wider.to).toBeGreaterThan(earlier.to);
  const closer = await press("Zoom in");
  expect(closer.from).toBeGreaterThan(wider.from);
  expect(closer.to).toBeLessThan(wider.to);

  const hour = await asked(page, () => page.getByText("1 h", { exact: true }).click());
  expect(hour.to - hour.from).toBe(3600);
  await expect(back).toHaveCount(0);
});

test("what the address says is shown: a link leads to the same stretch of the same volumes", async ({ array, open, page }) => {
  await busy(array);
  await open("/performance");
  await choose(page, "Scope", "db1");
  await choose(page, "Compare with", "db2");
  const zoomed = await asked(page, () => page.getByRole("button", { name: "Zoom in" }).click());
  await expect(page).toHaveURL(/of=volume%3Adb1&against=volume%3Adb2/);
  const again = await asked(page, async () => {
    await page.reload();
  });
  expect(again).toEqual(zoomed);
  await page.getByRole("button", { name: "Back to now" }).click();
  await expect(page).not.toHaveURL(/from=/);
  await expect(page).toHaveURL(/of=volume%3Adb1/);
});

test("two volumes are compared: a line of each for each kind of work", async ({ array, open, page }) => {
  await busy(array);
  await open("/performance");
  await choose(page, "Scope", "db1");
  await choose(page, "Compare with", "db2");
  const legend = panel(page, "IOPS").locator(".u-legend .u-label");
  await expect(legend.filter({ hasText: /^db[12] (read|write|offload)$/ })).toHaveCount(6);
  // Each has its own numbers.
  const said = async (title: string) => (await panel(page, title).getByRole("img").getAttribute("aria-label")) ?? "";
  await expect.poll(() => said("IOPS")).toMatch(/db1 write .*db2 read /);
  await page.getByText("Write", { exact: true }).first().click();
  await expect(legend.filter({ hasText: /^db[12] write$/ })).toHaveCount(2);
  await expect(legend.filter({ hasText: /read/ })).toHaveCount(0);
  for (const percentile of ["p50", "p99.9", "Max"]) await panel(page, "Latency").getByText(percentile, { exact: true }).click();
});

test("the latency map shows the kind of work that is chosen", async ({ array, open, page }) => {
  await busy(array);
  await open("/performance?of=volume:db2");
  const map = panel(page, "Latency heat map");
  const reads = map.getByRole("img", { name: /^Latency of reads over time: from/ });
  await expect(reads).toBeVisible();
  expect(await drawn(reads)).toBeGreaterThan(0);
  await map.getByText("Offload", { exact: true }).click();
  await expect(map.getByText("No offloads in this period.")).toBeVisible();
  await map.getByText("Write", { exact: true }).click();
  await expect(map.getByRole("img", { name: /^Latency of writes over time: from/ })).toBeVisible();
});

test("what is shown is taken along as a table and as a picture", async ({ array, open, page }) => {
  await busy(array);
  await open("/performance");
  await choose(page, "Scope", "db1");
  await choose(page, "Compare with", "db2");
  await expect(panel(page, "IOPS").locator(".u-legend")).toContainText("db2 write");

  const taken = async (button: string) => {
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: button, exact: true }).click();
    const file = await download;
    return { name: file.suggestedFilename(), bytes: readFileSync(await file.path()) };
  };
  const table = await taken("CSV");
  expect(table.name).toBe("db1-and-db2-performance.csv");
  const [heading, ...rows] = table.bytes.toString("utf8").trim().split(/\r?\n/);
  const columns = (heading ?? "").split(",");
  const [of, time, written] = ["of", "time", "write_iops"].map((it) => columns.indexOf(it));
  expect([of, time, written]).not.toContain(-1);
  const cells = rows.map((it) => it.split(","));
  for (const row of cells) expect(row).toHaveLength(columns.length);
  const sum = (name: string) => cells.filter((it) => it[of ?? -1] === name).reduce((all, it) => all + Number(it[written ?? -1] ?? 0), 0);
  expect(sum("db2")).toBeGreaterThan(0);
  expect(sum("db1")).toBeGreaterThan(2 * sum("db2"));

  const picture = await taken("PNG");
  expect(picture.name).toBe("db1-and-db2.png");
  expect(picture.bytes.subarray(1, 4).toString("ascii")).toBe("PNG");
  // As wide as a chart, and as high as the three of them with their titles.
  expect(picture.bytes.readUInt32BE(16)).toBeGreaterThan(600);
  expect(picture.bytes.readUInt32BE(20)).toBeGreaterThan(600);
});

/** The walk of docs/tour.md, as a new user makes it. `npm run tour` takes its pictures. */
import { mkdirSync } from "node:fs";
import type { Page } from "@playwright/test";
import { expect, test } from "./array";
import { throughSetup } from "./setup";

const INITIATOR = "iqn.1993-08.org.debian:01:db1";
const pictures = process.env["TOUR"];

test.use({ viewport: { width: 1180, height: 760 } });

/** A picture for the tour, without the messages that come and go. */
async function picture(page: Page, name: string) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await expect(page.locator(".mantine-Skeleton-root")).toHaveCount(0);
  // By the object, as the page's policy lets no other style in.
  for (const it of await page.locator(".mantine-Notifications-root").all()) await it.evaluate((element) => (element as HTMLElement).style.setProperty("display", "none"));
  await page.screenshot({ path: `${pictures}/${name}.png` });
}

test("a new user gives a server storage, watches it, goes back in time, and takes it away again", async ({ array, page }) => {
  test.setTimeout(300_000);
  await page.goto(`${array.url}/#token=${array.token}`);
  await expect(page.getByText("Your array is ready")).toBeVisible();
  await picture(page, "1-new");

  await page.getByRole("link", { name: "Set up" }).click();
  await expect(page.getByText("usable, after what protects")).toBeVisible();
  await throughSetup(page, "rack4");
  await page.getByRole("textbox", { name: "Name of the host" }).fill("db1");
  await page.getByLabel("iSCSI name or NQN").fill(INITIATOR);
  await page.getByRole("textbox", { name: "Name of the volume" }).fill("data");
  await picture(page, "2-setup");
  await page.getByRole("button", { name: "Create both" }).click();
  await expect(page.getByText("Waiting for db1 to log in")).toBeVisible();
  await expect(page.getByText("iscsiadm -m discovery")).toBeVisible();
  await picture(page, "3-host");

  // The same 64 KiB again and again: deduplication makes one of them.
  const pattern = (number: number) => Array.from({ length: 48 }, (_, at) => `write -P ${number} ${at}M 1M`);
  await array.work(INITIATOR, 0, [...pattern(65), ...Array.from({ length: 64 }, (_, at) => `read ${at * 512}k 64k`)]);
  await page.getByRole("link", { name: "To the dashboard" }).click();
  await expect(page.getByText("rack4", { exact: true })).toBeVisible();
  await expect(page.getByText("iSCSI sessions")).toBeVisible();
  await expect(page.getByText(/\d : 1 data reduction|data reduction/)).toBeVisible();
  await expect(page.getByText(/deduplication \d/)).toBeVisible({ timeout: 30_000 });
  await picture(page, "4-dashboard");
  await page.getByRole("link", { name: "Performance", exact: true }).first().click();
  await expect(page.getByRole("table", { name: "Sizes of reads and writes" })).toBeVisible();
  await picture(page, "5-performance");

  await page.getByRole("link", { name: "Volumes", exact: true }).click();
  await page.getByRole("link", { name: "data", exact: true }).click();
  await page.getByRole("button", { name: "Take snapshot" }).click();
  const take = page.getByRole("dialog", { name: "Snapshot of data" });
  await take.getByLabel("Name suffix").fill("before");
  await take.getByRole("button", { name: "Take snapshot" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "data.before" })).toBeVisible();
  await picture(page, "6-snapshot");

  await array.work(INITIATOR, 0, pattern(90));
  await page.getByRole("button", { name: "Restore" }).click();
  const restore = page.getByRole("dialog", { name: /Restore data/ });
  await restore.getByRole("textbox").fill("data");
  await picture(page, "7-restore");
  await restore.getByRole("button", { name: "Restore" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "data", exact: true })).toBeVisible();
  await array.work(INITIATOR, 0, ["read -P 65 0 48M"]);

  await page.getByRole("table", { name: "Connections" }).getByRole("button", { name: "Disconnect" }).click();
  await page.getByRole("dialog", { name: /Disconnect/ }).getByRole("button", { name: "Disconnect" }).click();
  await expect(page.getByText("Not connected")).toBeVisible();
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  const deletion = page.getByRole("dialog", { name: /Delete data/ });
  await deletion.getByRole("textbox").fill("data");
  await deletion.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("link", { name: "Recycle bin", exact: true }).click();
  await expect(page.getByRole("button", { name: "Restore data" })).toBeVisible();
  await picture(page, "8-recycle-bin");
});

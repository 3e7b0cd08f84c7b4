/** Two real arrays: paired, a group protected, its failover tested and carried out, by the pages of both. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, RunningArray, test } from "./array";
import { furnish } from "./furnish";
import { hindrances } from "./hindrances";

/** Presses a button and what asks for it in the dialog that opens, with the name where that is asked for. */
async function act(page: Page, verb: string, name?: string) {
  await page.getByRole("main").getByRole("button", { name: verb, exact: true }).click();
  const dialog = page.getByRole("dialog");
  if (name) await dialog.getByRole("textbox").fill(name);
  await dialog.getByRole("button", { name: verb, exact: true }).click();
  await expect(dialog).toHaveCount(0);
}

/** An array that listens for others; `page` shows its replications. */
async function another(page: Page): Promise<{ running: RunningArray; stop: () => Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), "ashlar-web-"));
  const running = await RunningArray.start(folder, ["--replication", "127.0.0.1:0"]);
  await page.goto(`${running.url}/replications#token=${running.token}`);
  const stop = async () => {
    await page.close();
    await running.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { running, stop };
}

/** Pairs the array of a page with another one, by the pages of both. */
async function pairWith(page: Page, there: Page, other: RunningArray, name: string) {
  await there.getByRole("button", { name: "Create pairing key" }).click();
  const key = (await there.getByRole("dialog", { name: "Pairing key" }).locator("pre").textContent()) ?? "";
  await there.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("button", { name: "Pair with an array" }).click();
  const pair = page.getByRole("dialog", { name: "Pair with an array" });
  await pair.getByLabel("Address").fill(other.ready.replication ?? "");
  await pair.getByLabel("Pairing key").fill(key);
  await pair.getByLabel("Name").fill(name);
  await pair.getByRole("button", { name: "Pair" }).click();
  const row = page.getByRole("table", { name: "Remote arrays" }).getByRole("row", { name });
  await expect(row.getByText("connected")).toBeVisible();
}

test("a group is protected on another array, its failover is tested, and the other array takes over", async ({ array, open, page, browser }) => {
  test.setTimeout(120_000);
  await furnish(array);
  const [there, third] = [await browser.newPage(), await browser.newPage()];
  const [other, witness] = [await another(there), await another(third)];
  await open("/replications");
  await pairWith(page, there, other.running, "site-b");
  await pairWith(page, third, witness.running, "site-c");

  await page.getByRole("button", { name: "Create replication" }).click();
  const create = page.getByRole("dialog", { name: "Create replication" });
  await create.getByLabel("Name").fill("prod");
  await create.getByRole("combobox", { name: "Source" }).click();
  await page.getByRole("option", { name: "sql" }).click();
  await create.getByRole("combobox", { name: "Remote array" }).click();
  await page.getByRole("option", { name: "site-b" }).click();
  await create.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "prod" })).toBeVisible();
  await expect(page.getByText(/^1, taken/)).toBeVisible();
  await page.getByRole("button", { name: "Sync now" }).click();
  await expect(page.getByText(/^2, taken/)).toBeVisible();
  expect(await hindrances(page)).toEqual([]);

  // Synchronous, with a witness, and asynchronous again.
  const steps: [string, string[], string?][] = [
    ["Synchronous", ["synchronous", "writes are refused", "in sync"]],
    ["Synchronous", ["synchronous", "site-c", "in sync"], "site-c"],
    ["Asynchronous", ["asynchronous", "complete"]],
  ];
  for (const [mode, facts, decider] of steps) {
    await page.getByRole("main").getByRole("button", { name: "Change", exact: true }).click();
    const change = page.getByRole("dialog");
    await change.getByRole("combobox", { name: "Mode" }).click();
    await page.getByRole("option", { name: mode, exact: true }).click();
    if (decider) {
      await change.getByRole("combobox", { name: "Witness" }).click();
      await page.getByRole("option", { name: decider }).click();
      await expect(change.getByRole("combobox", { name: "While the other array" })).toHaveCount(0);
    } else if (mode === "Synchronous") {
      await change.getByRole("combobox", { name: "While the other array" }).click();
      await page.getByRole("option", { name: "Writes wait" }).click();
    }
    await change.getByRole("button", { name: "Save" }).click();
    await expect(change).toHaveCount(0);
    for (const fact of facts) await expect(page.getByRole("main").getByText(fact, { exact: true }).first()).toBeVisible({ timeout: 30_000 });
    // The witness knows the session; the target is not paired with it, and says so.
    await expect(page.getByText("No failover would follow")).toHaveCount(0, { timeout: 30_000 });
    if (decider) {
      await there.getByRole("link", { name: "prod" }).click();
      await expect(there.getByText("this array is not paired with it")).toBeVisible({ timeout: 30_000 });
      expect(await hindrances(there)).toEqual([]);
      await there.goBack();
    }
    expect(await hindrances(page)).toEqual([]);
  }

  // On the target, while replication continues.
  await there.getByRole("link", { name: "prod" }).click();
  await act(there, "Test failover");
  await expect(there.getByRole("link", { name: "db1-test" })).toBeVisible();
  expect(await hindrances(there)).toEqual([]);
  await act(there, "Stop test");
  await expect(there.getByRole("link", { name: "db1-test" })).toHaveCount(0);

  // A planned failover: nothing asks for the name, as nothing is lost.
  await act(page, "Demote");
  await expect(page.getByRole("main").getByText("demoted", { exact: true })).toBeVisible();
  await expect(there.getByRole("main").getByText("demoted", { exact: true })).toBeVisible();
  await act(there, "Promote");
  await expect(there.getByRole("link", { name: "db1", exact: true })).toBeVisible();
  await expect(there.getByRole("main").getByText("promoted", { exact: true })).toBeVisible();

  // The other direction: the arrays change their roles, and the source of before has to listen for that.
  await there.getByRole("main").getByRole("button", { name: "Reverse", exact: true }).click();
  const reverse = there.getByRole("dialog");
  await reverse.getByRole("button", { name: "Reverse", exact: true }).click();
  await expect(reverse.getByRole("alert")).toContainText("address");
  await other.stop();
  await witness.stop();
});

/** Every page of the plug-in over a vCenter, real arrays, and a stand-in for the vSphere Client. The order counts: the array is stopped last. */
import { expect, shown, test } from "./stand";

test.describe.configure({ mode: "serial" });

for (const theme of ["light", "dark"] as const) {
  test(`every page shows live data and can be used by everybody, ${theme}`, async ({ open }) => {
    test.setTimeout(300_000);
    const page = await open("overview", undefined, { theme });
    await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", theme);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.getByRole("region", { name: "Capacity" })).toBeVisible();
    await expect(page.getByRole("region", { name: "Reduction" })).toBeVisible();
    const stores = page.getByRole("table", { name: "Datastores" });
    await expect(stores.getByRole("button", { name: "production" })).toBeVisible();
    await expect(page.getByRole("table", { name: "Offloads" }).getByRole("cell", { name: "Unmap" })).toBeVisible();
    await shown(page, `overview-${theme}`);

    await open("volume", "production", { theme });
    await expect(page.getByRole("heading", { level: 1, name: "production" })).toBeVisible();
    await expect(page.getByRole("table", { name: "Snapshots" }).getByText("production.before")).toBeVisible();
    await expect(page.getByRole("region", { name: "Volume" }).getByText("DC0_C0_RP0_VM")).toBeVisible();
    await expect(page.getByRole("table", { name: "Offloads" }).getByRole("cell", { name: "Unmap" })).toBeVisible();
    await expect(page.getByRole("region", { name: "QoS limits and data reduction" })).toBeVisible();
    await shown(page, `datastore-${theme}`);

    for (const object of ["cluster", "host0"]) {
      await open("practice", object, { theme });
      await expect(page.getByRole("heading", { level: 1, name: /Best practices of/ })).toBeVisible();
      await expect(page.getByRole("table", { name: "Settings" }).getByText("deviates").first()).toBeVisible();
      await shown(page, `practice-${object}-${theme}`);
    }
    for (const [action, object, button] of [["create", "cluster", "Create"], ["grow", "production", "Grow"], ["snapshot", "production", "Take snapshot"], ["protect", "production", "Protect"]] as const) {
      await open(action, object, { theme });
      await expect(page.getByRole("button", { name: button, exact: true })).toBeVisible();
      await shown(page, `${action}-${theme}`);
    }
  });
}

test("pages fit the windows that the client gives them", async ({ open, page }) => {
  test.setTimeout(300_000);
  for (const [view, object, width] of [["create", "cluster", 560], ["grow", "production", 560], ["snapshot", "production", 560], ["protect", "production", 560], ["overview", undefined, 800], ["volume", "production", 800], ["practice", "cluster", 800]] as const) {
    await page.setViewportSize({ width, height: 500 });
    await open(view, object);
    await expect(page.getByRole("heading", { level: 1 })).toBeAttached();
    await expect(page.locator(".mantine-Skeleton-root")).toHaveCount(0);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(over, view).toBeLessThanOrEqual(0);
  }
});

test("the theme follows the client, and a datastore leads to its own page", async ({ open }) => {
  const page = await open("overview");
  await page.evaluate(() => (globalThis as unknown as { htmlClientSdk: { changeTheme: (name: string) => void } }).htmlClientSdk.changeTheme("dark"));
  await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", "dark");
  await page.getByRole("table", { name: "Datastores" }).getByRole("button", { name: "test" }).click();
  await expect(page.locator("body")).toHaveAttribute("data-went", /^volume urn:vmomi:Datastore:/);
});

test("of two arrays in one vCenter one is chosen", async ({ open }) => {
  const page = await open("overview");
  await expect(page.getByRole("table", { name: "Datastores" })).toBeVisible();
  await page.getByLabel("Array", { exact: true }).first().click();
  await page.getByRole("option", { name: "rack2" }).click();
  await expect(page.getByText("No datastores on this array")).toBeVisible();
});

test("a datastore is created, grown, snapshotted, restored as a copy, and protected", async ({ open, stand }) => {
  test.setTimeout(300_000);
  let page = await open("create", "cluster");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await expect(page.getByText("Give it a name.")).toBeVisible();
  await page.getByRole("textbox", { name: "Name of the datastore" }).fill("archive");
  await page.getByRole("textbox", { name: "Size" }).fill("64 MiB");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await expect(page.getByRole("status").getByText("Done.")).toBeVisible();
  await expect(page.getByRole("list", { name: "Steps" }).getByText("set path policy and outstanding I/Os")).toBeVisible();
  await page.getByRole("button", { name: "Close" }).click();
  await expect(page.locator("body")).toHaveAttribute("data-closed", "yes");

  page = await open("volume", "production");
  await page.getByRole("button", { name: "Take snapshot" }).first().click();
  const take = page.getByRole("dialog", { name: "Snapshot of production" });
  await take.getByLabel("Name suffix").fill("now");
  await take.getByRole("button", { name: "Take snapshot" }).click();
  const snapshots = page.getByRole("table", { name: "Snapshots" });
  await expect(snapshots.getByText("production.now")).toBeVisible();
  await snapshots.getByRole("button", { name: "Restore production.now as a copy" }).click();
  const restore = page.getByRole("dialog", { name: /Restore production.now/ });
  await restore.getByRole("button", { name: "Restore" }).click();
  await expect(restore.getByText("Done.")).toBeVisible();
  await restore.getByRole("button", { name: "Close" }).last().click();
  await snapshots.getByRole("button", { name: "Delete production.now" }).click();
  await page.getByRole("dialog", { name: "Delete production.now?" }).getByRole("button", { name: "Delete" }).click();
  await expect(snapshots.getByText("production.now")).toHaveCount(0);

  await page.getByRole("button", { name: "Grow" }).click();
  const grow = page.getByRole("dialog", { name: "Grow production" });
  await grow.getByRole("textbox", { name: "New size" }).fill("32 MiB");
  await grow.getByRole("button", { name: "Grow" }).click();
  await expect(grow.getByText(/can’t be made smaller/)).toBeVisible();
  await grow.getByRole("textbox", { name: "New size" }).fill("128 MiB");
  await grow.getByRole("button", { name: "Grow" }).click();
  await expect(grow.getByText("Done.")).toBeVisible();
  await grow.getByRole("button", { name: "Close" }).last().click();
  await expect(page.getByRole("region", { name: "Volume" }).getByText("128 MiB", { exact: true })).toBeVisible();

  await page.getByRole("button", { name: "Protect" }).click();
  const protect = page.getByRole("dialog", { name: "Protect production" });
  await protect.getByRole("button", { name: "Protect" }).click();
  await expect(page.getByText("protected by a schedule")).toBeVisible();

  await page.getByRole("region", { name: "QoS limits and data reduction" }).getByRole("button", { name: "Set" }).click();
  const limits = page.getByRole("dialog", { name: /QoS limits/ });
  await limits.getByLabel("IOPS limit").fill("5000");
  await limits.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("5,000 at most")).toBeVisible();

  const tasks = await stand.tasks();
  // Two datastores were there before.
  for (const [kind, count] of [["create", 3], ["clone", 1], ["grow", 1]] as const) expect(tasks[`org.ashlar.array.${kind} success`], kind).toBe(count);
});

test("what failed says what is still in effect", async ({ open, stand }) => {
  await stand.change("broken");
  const page = await open("grow", "test");
  await page.getByRole("textbox", { name: "New size" }).fill("128 MiB");
  await page.getByRole("button", { name: "Grow" }).click();
  await expect(page.getByRole("alert").getByText(/run the same command again to finish/)).toBeVisible();
  expect((await stand.tasks())["org.ashlar.array.grow error"]).toBe(1);
});

test("settings of a cluster are named before they are changed, and hosts in maintenance are too", async ({ open, stand }) => {
  test.setTimeout(300_000);
  await stand.change("maintenance");
  const page = await open("practice", "cluster");
  await expect(page.getByText(/is in maintenance mode/)).toBeVisible();
  const before = await page.getByText(/3 hosts read, \d+ deviations/).textContent();
  await page.getByRole("button", { name: "Fix" }).click();
  const fix = page.getByRole("dialog", { name: /Change settings of/ });
  await expect(fix.getByRole("checkbox", { name: "Change sched-quantum" })).toBeChecked();
  await expect(fix.getByText(/8 → 64/).first()).toBeVisible();
  await shown(page, "fix-light");
  await fix.getByRole("checkbox", { name: "Change block-delete" }).uncheck();
  await fix.getByRole("button", { name: /^Change \d+ settings$/ }).click();
  await expect(fix.getByText("Done.")).toBeVisible();
  await fix.getByRole("button", { name: "Close" }).last().click();
  // What was left out is all that deviates still.
  await expect(page.getByText("3 hosts read, 3 deviations.")).toBeVisible();
  expect(before).not.toBe("3 hosts read, 3 deviations.");
  await stand.change("disconnected");
  await page.getByRole("button", { name: "Check again" }).click();
  await expect(page.getByRole("alert").getByText(/1 host was not read/)).toBeVisible();
});

test("who may only look finds nothing to change, and who may nothing reads which privilege is missing", async ({ open }) => {
  let page = await open("volume", "production", { user: "viewer" });
  await expect(page.getByRole("table", { name: "Snapshots" })).toBeVisible();
  await expect(page.getByRole("button", { name: /Grow|Protect|Take snapshot|Delete/ })).toHaveCount(0);
  page = await open("grow", "production", { user: "viewer" });
  await expect(page.getByRole("alert").getByText(/Ashlar.Manage/)).toBeVisible();
  page = await open("volume", "production", { user: "nobody" });
  await expect(page.getByRole("alert").getByText(/Ashlar.View/)).toBeVisible();
});

test("a datastore that is on no array of the plug-in is named", async ({ open }) => {
  const page = await open("volume", "local");
  await expect(page.getByRole("alert").getByText(/is on none of the arrays that the plug-in has \(rack1, rack2\)/)).toBeVisible();
});

test("an expired session is reported, and one that the client replaced continues", async ({ open, stand }) => {
  const token = await stand.signIn("ada");
  const page = await open("overview", undefined, { token });
  await expect(page.getByRole("table", { name: "Datastores" })).toBeVisible();
  const next = await stand.signIn("ada");
  await page.evaluate((next) => (globalThis as unknown as { htmlClientSdk: { changeToken: (token: string) => void } }).htmlClientSdk.changeToken(next), next);
  const answered = page.waitForResponse((it) => it.url().includes("/api/v1/array") && it.status() === 200 && it.request().headers()["vmware-api-session-id"] === next);
  await stand.leave(token);
  await answered;
  await expect(page.getByRole("alert")).toHaveCount(0);
  await stand.leave(next);
  await expect(page.getByRole("alert").getByText(/The session has expired/)).toBeVisible();
  expect((await page.request.get(page.url())).status()).toBe(200);
});

test("an array that is away is named, and the page resumes when it is back", async ({ open, stand }) => {
  test.setTimeout(300_000);
  await stand.change("stop");
  const page = await open("overview");
  await expect(page.getByRole("alert").getByText("The array can't be reached")).toBeVisible();
  const store = await open("volume", "production");
  await expect(store.getByRole("alert").getByText("The array can't be reached")).toBeVisible();
  await stand.change("start");
  await store.getByRole("button", { name: "Try again" }).click();
  await expect(store.getByRole("heading", { level: 1, name: "production" })).toBeVisible();
});

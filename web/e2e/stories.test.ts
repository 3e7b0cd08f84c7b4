/** What people come for, from the first sign-in to a volume that comes back from the recycle bin. */
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, signIn, test } from "./array";
import { furnish } from "./furnish";
import { throughSetup } from "./setup";

test("a user signs in, sees the name, and is asked again when the session is over", async ({ array, page }) => {
  await array.ask("POST", "users", { name: "ada", role: "operator", password: "a good password" });
  await page.goto(`${array.url}/volumes`);
  await signIn(page, "ada", "not the one");
  await expect(page.getByRole("alert")).toContainText("password is wrong");
  await signIn(page, "ada", "a good password");
  await expect(page.getByRole("heading", { level: 1, name: "Volumes" })).toBeVisible();
  const who = page.getByRole("button", { name: "Signed in as ada" });
  await page.reload();
  await expect(who).toBeVisible();
  await expect(page.getByRole("link", { name: "Audit log" })).toHaveCount(0);

  // Another password ends the session; after a new sign-in the same page is shown.
  await array.ask("PATCH", "users/ada", { password: "a better password" });
  await expect(page.getByText("The session has ended")).toBeVisible();
  await expect(page.getByRole("textbox", { name: "User" })).toHaveValue("ada");
  await signIn(page, "ada", "a better password");
  await expect(page.getByRole("heading", { level: 1, name: "Volumes" })).toBeVisible();

  await who.click();
  await page.getByRole("menuitem", { name: "Change password" }).click();
  const change = page.getByRole("dialog", { name: "Change your password" });
  await change.getByRole("textbox", { name: "Current password" }).fill("a better password");
  await change.getByLabel("New password").fill("the best password");
  await change.getByLabel("Repeat password").fill("the best");
  await change.getByRole("button", { name: "Set password" }).click();
  await expect(change.getByText("The passwords differ.")).toBeVisible();
  await change.getByLabel("Repeat password").fill("the best password");
  await change.getByRole("button", { name: "Set password" }).click();
  await expect(page.getByText("Your password is set.")).toBeVisible();
  await page.reload();

  await who.click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await expect(page.getByRole("textbox", { name: "User" })).toBeVisible();
  await page.reload();
  await expect(page.getByRole("textbox", { name: "User" })).toBeVisible();
});

test("an unused session ends", async ({ array, page }) => {
  await array.ask("POST", "users", { name: "ada", role: "operator", password: "a good password" });
  await page.clock.install();
  await page.goto(`${array.url}/`);
  await signIn(page, "ada", "a good password");
  await expect(page.getByRole("heading", { level: 1, name: "Dashboard" })).toBeVisible();
  await page.clock.fastForward("31:00");
  await expect(page.getByText("signed out after half an hour")).toBeVisible();
});

test("a token signs in, too; a wrong one is refused with what to do", async ({ array, page }) => {
  await page.goto(array.url);
  await page.getByRole("button", { name: "With a token" }).click();
  const token = page.getByLabel(/^Token/);
  await expect(token).toBeFocused();
  await token.fill("not the one");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("of this array");
  await token.fill(array.token);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Dashboard" })).toBeVisible();
});

test("who may only look is shown nothing to change", async ({ array, page }) => {
  await furnish(array);
  await array.ask("POST", "users", { name: "eve", role: "viewer", password: "just looking on" });
  await page.goto(`${array.url}/volumes/db1`);
  await signIn(page, "eve", "just looking on");
  await expect(page.getByRole("heading", { level: 1, name: "db1" })).toBeVisible();
  await expect(page.getByRole("table", { name: "Connections" }).getByRole("link", { name: "web1" })).toBeVisible();
  for (const path of ["volumes/db1", "volumes", "hosts", "hosts/web1", "groups/sql", "host-groups/cluster", "snapshots", "snapshots/db1.first", "schedules", "replications", "recycle-bin"]) {
    await page.goto(`${array.url}/${path}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.locator(".mantine-Skeleton-root")).toHaveCount(0);
    await expect(page.getByRole("main").getByRole("button", { name: /^(create|add|connect|disconnect|set|take|delete|forget|more|change|restore|eradicate|run|pair)\b/i })).toHaveCount(0);
  }
  await page.goto(`${array.url}/settings`);
  await expect(page.getByRole("textbox", { name: "Name of the array" })).toBeDisabled();
  await page.goto(`${array.url}/audit`);
  await expect(page.getByRole("alert")).toContainText("admin");
});

test("a host of NVMe/TCP authenticates with a secret that the page does not show", async ({ open, page }) => {
  const secret = "DHHC-1:01:nhr7JP2NMnF+O+sHDpADH7X4X92Mro645HWZ341f6zLhtuL4:";
  await open("/hosts");
  await page.getByRole("button", { name: "Add host" }).first().click();
  const host = page.getByRole("dialog", { name: "Add host" });
  await host.getByRole("textbox", { name: "Name", exact: true }).fill("nvme1");
  await host.getByLabel("NQNs").fill("nqn.2014-08.org.nvmexpress:uuid:7a3f0c5e");
  await host.getByRole("switch", { name: "Require DH-HMAC-CHAP over NVMe/TCP" }).click();
  await host.getByLabel("DH-HMAC-CHAP secret of the host").fill("a secret");
  await host.getByRole("button", { name: "Add" }).click();
  await expect(host.getByText("nvme gen-dhchap-key makes it")).toBeVisible();
  await host.getByLabel("DH-HMAC-CHAP secret of the host").fill(secret);
  await host.getByRole("button", { name: "Add" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "nvme1" })).toBeVisible();
  await expect(page.locator("dt", { hasText: "DH-HMAC-CHAP" }).locator("+ dd")).toHaveText("required");
  expect(await page.content()).not.toContain("nhr7JP2N");
});

test("a host of NVMe/TCP has a TLS PSK that the page does not show", async ({ open, page }) => {
  const psk = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
  await open("/hosts");
  await page.getByRole("button", { name: "Add host" }).first().click();
  const host = page.getByRole("dialog", { name: "Add host" });
  await host.getByRole("textbox", { name: "Name", exact: true }).fill("tls1");
  await host.getByLabel("NQNs").fill("nqn.2014-08.org.nvmexpress:uuid:7a3f0c5f");
  await host.getByRole("switch", { name: "Require TLS over NVMe/TCP" }).click();
  await host.getByLabel("TLS PSK of the host").fill("a PSK");
  await host.getByRole("button", { name: "Add" }).click();
  await expect(host.getByText("nvme gen-tls-key makes it")).toBeVisible();
  await host.getByLabel("TLS PSK of the host").fill(psk);
  await host.getByRole("button", { name: "Add" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "tls1" })).toBeVisible();
  await expect(page.locator("dt", { hasText: /^TLS$/ }).locator("+ dd")).toHaveText("required, by a PSK");
  expect(await page.content()).not.toContain("VRLbtnN9");
});

test("a host and a volume are made and connected; the volume is deleted and restored", async ({ open, page }) => {
  await open("/");
  await page.getByRole("link", { name: "Add a host" }).click();
  const host = page.getByRole("dialog", { name: "Add host" });
  await host.getByRole("textbox", { name: "Name", exact: true }).fill("web1");
  await host.getByLabel("iSCSI names").fill("InitiatorName=iqn.1993-08.org.debian:01:web1");
  await host.getByRole("button", { name: "Add" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "web1" })).toBeVisible();
  await expect(page.getByText("iscsiadm -m discovery")).toBeVisible();

  await page.getByRole("link", { name: "Volumes", exact: true }).click();
  await page.getByRole("button", { name: "Create volume" }).click();
  const create = page.getByRole("dialog", { name: "Create volume" });
  await create.getByRole("textbox", { name: "Name" }).fill("db1");
  await create.getByRole("textbox", { name: "Size" }).fill("1.5T");
  await expect(create.getByText("= 1.5 TiB")).toBeVisible();
  await create.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "db1" })).toBeVisible();
  await expect(page.getByText("mapped of 1.5 TiB")).toBeVisible();

  await page.getByRole("button", { name: "Connect a host" }).click();
  const connect = page.getByRole("dialog", { name: "Connect db1" });
  await connect.getByRole("combobox", { name: "To" }).click();
  await page.getByRole("option", { name: "web1" }).click();
  await connect.getByRole("button", { name: "Connect" }).click();
  const connections = page.getByRole("table", { name: "Connections" });
  await expect(connections.getByRole("link", { name: "web1" })).toBeVisible();

  const removal = async (verb: string) => {
    await page.getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: verb }).click();
    return page.getByRole("dialog", { name: /db1/ });
  };
  const refused = await removal("Delete");
  await expect(refused.getByRole("alert")).toContainText("disconnect");
  await refused.getByRole("button", { name: "Cancel" }).click();

  await connections.getByRole("button", { name: "Disconnect" }).click();
  await page.getByRole("dialog", { name: /Disconnect/ }).getByRole("button", { name: "Disconnect" }).click();
  await expect(page.getByText("Not connected")).toBeVisible();
  const deletion = await removal("Delete");
  await expect(deletion.getByRole("button", { name: "Delete" })).toBeDisabled();
  await deletion.getByRole("textbox").fill("db1");
  await deletion.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No volumes yet")).toBeVisible();

  await page.getByRole("link", { name: "Recycle bin", exact: true }).click();
  await page.getByRole("button", { name: "Restore db1" }).click();
  await page.getByRole("dialog", { name: /Restore/ }).getByRole("button", { name: "Restore" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "db1" })).toBeVisible();
});

test("the configuration is exported as a document without secrets", async ({ array, open, page }) => {
  await array.ask("POST", "volumes", { name: "db1", size: 2 ** 30 });
  await open("/settings/support");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  const file = await download;
  expect(file.suggestedFilename()).toMatch(/-configuration\.json$/);
  const document = JSON.parse(readFileSync(await file.path(), "utf8")) as { format: number; left_out: string[]; volumes: { name: string }[] };
  expect(document.format).toBe(1);
  expect(document.volumes.map((it) => it.name)).toEqual(["db1"]);
  expect(document.left_out).toContain("password of user/admin");
});

test("a configuration is imported after a look at the difference, and what differs only if it is marked", async ({ array, open, page }) => {
  await array.ask("POST", "volumes", { name: "db1", size: 2 ** 30 });
  await array.ask("POST", "hosts", { name: "esx1", initiators: ["iqn.1998-01.com.vmware:esx1"] });
  const document = (await array.ask("GET", "configuration")) as { volumes: { name: string; size: number }[] };
  const wanted = [...document.volumes.map((it) => ({ ...it, size: 2 ** 31 })), ...document.volumes.map((it) => ({ ...it, name: "db2" }))];
  await open("/settings/support");
  const file = (content: unknown) => ({ name: "prod.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(content)) });
  await page.locator("input[type=file]").setInputFiles({ ...file({}), buffer: Buffer.from("no document") });
  await expect(page.getByText("prod.json is no configuration document.")).toBeVisible();
  await page.locator("input[type=file]").setInputFiles(file({ ...document, volumes: wanted }));
  const dialog = page.getByRole("dialog", { name: "Import prod.json" });
  const row = (object: string) => dialog.getByRole("row").filter({ hasText: object });
  await expect(row("volume/db2")).toContainText("create");
  await expect(row("volume/db1")).toContainText("differs, stays");
  await expect(row("host/esx1")).toHaveCount(0);
  await expect(dialog.getByRole("button", { name: "Import 1 object" })).toBeVisible();
  const names = async () => ((await array.ask("GET", "volumes")) as { items: { name: string; size: number }[] }).items.map((it) => `${it.name} ${it.size}`);
  expect(await names()).toEqual([`db1 ${2 ** 30}`]);
  await dialog.getByRole("checkbox", { name: "Overwrite volume/db1" }).check();
  await expect(row("volume/db1").getByText("overwrite", { exact: true })).toBeVisible();
  await dialog.getByRole("button", { name: "Import 2 objects" }).click();
  await expect(page.getByRole("dialog", { name: "Imported from prod.json" })).toBeVisible();
  expect(await names()).toEqual([`db1 ${2 ** 31}`, `db2 ${2 ** 30}`]);
});

test("the time zone is the one that is chosen in the setup, and schedules say so", async ({ open, page }) => {
  await open("/setup");
  await page.getByRole("button", { name: "Next" }).click();
  const zone = page.getByRole("combobox", { name: "Time zone" });
  await zone.fill("Europe/Atlantis");
  await page.getByRole("button", { name: "Next" }).click();
  await expect(page.getByRole("alert")).toContainText("Europe/Atlantis");
  await zone.fill("europe/ber");
  await page.getByRole("option", { name: "Europe/Berlin" }).click();
  await page.getByRole("button", { name: "Next" }).click();
  await expect(page.getByText("its time zone Europe/Berlin.")).toBeVisible();
  await open("/settings");
  await expect(page.getByRole("combobox", { name: "Time zone" })).toHaveValue("Europe/Berlin");
  await open("/schedules");
  await page.getByRole("button", { name: "Create schedule" }).first().click();
  await expect(page.getByText("Times are those of Europe/Berlin.")).toBeVisible();
});

test("the first run leads from the drives to a disk on a host; what the array refuses can be mended there", async ({ array, open, page }) => {
  await array.ask("POST", "volumes", { name: "taken", size: 2 ** 30 });
  await open("/setup");
  await throughSetup(page);
  await page.getByRole("button", { name: "Create both" }).click();
  await expect(page.getByText("Give it a name.").first()).toBeVisible();
  await page.getByRole("textbox", { name: "Name of the host" }).fill("web1");
  await page.getByLabel("iSCSI name or NQN").fill("iqn.1993-08.org.debian:01:web1");
  await page.getByRole("textbox", { name: "Name of the volume" }).fill("taken");
  await page.getByRole("button", { name: "Create both" }).click();
  await expect(page.getByRole("alert")).toContainText("name another");
  await page.getByRole("textbox", { name: "Name of the volume" }).fill("data");
  await page.getByRole("button", { name: "Create both" }).click();
  await expect(page.getByText("Waiting for web1 to log in")).toBeVisible();
  await page.getByRole("link", { name: "To the dashboard" }).click();
  await expect(page.getByText("Your array is ready")).toHaveCount(0);
});

/** Lets the page's timers run for less time than it lets pass between two questions. */
async function untilTold(page: Page, done: () => Promise<boolean>) {
  for (let tenth = 0; tenth < 40; tenth += 1) {
    await page.clock.runFor(100);
    if (await done()) return;
  }
  throw new Error("nothing notified the page");
}

test("a portal is added beside those of the start, and removed", async ({ array, open, page }) => {
  const option = array.ready.portals[0] ?? "";
  await open("/settings/portals");
  const table = page.getByRole("table", { name: "Portals" });
  await expect(table.getByText("option of the start")).toHaveCount(2);
  await page.getByRole("button", { name: "Add portal" }).click();
  const dialog = page.getByRole("dialog", { name: "Add portal" });
  await dialog.getByRole("textbox", { name: "Address" }).fill(option);
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(dialog.getByRole("alert")).toContainText("has this address");
  const port = option.split(":").at(-1) ?? "";
  await dialog.getByRole("textbox", { name: "Address" }).fill(`127.0.0.2:${port}`);
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(table.getByText(`127.0.0.2:${port}`)).toBeVisible();
  await page.getByRole("button", { name: `Remove 127.0.0.2:${port}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await expect(table.getByText(`127.0.0.2:${port}`)).toHaveCount(0);
});

test("another address of the API is on trial until it is confirmed", async ({ array, open, page }) => {
  // That of an iSCSI portal is taken; its port is free at another address.
  const [taken = ""] = array.ready.portals;
  const free = taken.replace("127.0.0.1", "127.0.0.3");
  await open("/settings/portals");
  const panel = page.getByRole("region", { name: "API and web interface" });
  await panel.getByRole("button", { name: "Change address" }).click();
  const dialog = page.getByRole("dialog", { name: "Change the address of the API" });
  await dialog.getByRole("textbox", { name: "Address" }).fill(taken);
  await dialog.getByRole("button", { name: "Change" }).click();
  await expect(dialog.getByRole("alert")).toContainText("nothing was changed");
  await dialog.getByRole("textbox", { name: "Address" }).fill(free);
  await dialog.getByRole("button", { name: "Change" }).click();
  await expect(panel.getByText(`${free} is on trial`)).toBeVisible();
  await panel.getByRole("button", { name: "Confirm" }).click();
  await expect(panel.getByText("on trial")).toHaveCount(0);
  await expect(panel.getByText(free)).toBeVisible();
});

test("changes by others are shown without a reload", async ({ array, page, open }) => {
  await page.clock.install();
  const notified = page.waitForResponse("**/api/v1/stream");
  await open("/volumes");
  await notified;
  await expect(page.getByText("No volumes yet")).toBeVisible();
  await page.clock.pauseAt(Date.now() + 3_600_000);
  await untilTold(page, () => page.getByText("No volumes yet").isVisible());
  await array.ask("POST", "volumes", { name: "news", size: 2 ** 30 });
  await untilTold(page, () => page.getByRole("link", { name: "news" }).isVisible());
});

test("without the stream pages ask by themselves", async ({ array, page, open }) => {
  await page.route("**/api/v1/stream", (route) => route.abort());
  await open("/volumes");
  await expect(page.getByText("No volumes yet")).toBeVisible();
  await array.ask("POST", "volumes", { name: "news", size: 2 ** 30 });
  await expect(page.getByRole("link", { name: "news" })).toBeVisible();
});

test("an array that goes away is reported, and the page resumes when it is back", async ({ array, open, page }) => {
  await open("/");
  await expect(page.getByText("Online")).toBeVisible();
  await array.stop();
  await expect(page.getByText("Unreachable")).toBeVisible();
});

test("drives are shown, scrubbed and added; what takes long is a job", async ({ array, open, page }) => {
  await open("/drives");
  await expect(page.getByRole("img", { name: /^Slot \d+: online/ })).toHaveCount(6);
  await expect(page.getByText("Any 2 drives may fail without data loss.")).toBeVisible();
  await page.getByRole("button", { name: "Scrub now" }).click();
  await expect(page.getByText("nothing wrong")).toBeVisible();
  const path = join(array.folder, "another.drive");
  writeFileSync(path, "");
  truncateSync(path, 2 ** 30);
  await page.getByRole("button", { name: "Add drive" }).click();
  const add = page.getByRole("dialog", { name: "Add drive" });
  await add.getByRole("textbox", { name: "Device" }).fill("/dev/not-there");
  await add.getByRole("button", { name: "Add" }).click();
  await expect(add.getByRole("alert")).toBeVisible();
  await add.getByRole("textbox", { name: "Device" }).fill(path);
  await add.getByRole("button", { name: "Add" }).click();
  await expect(page.getByRole("img", { name: /^Slot \d+: online/ })).toHaveCount(7);
  await page.getByRole("link", { name: "Jobs", exact: true }).click();
  await expect(page.getByRole("table", { name: "Jobs" }).getByRole("row", { name: /scrub|verif/i })).toBeVisible();
});

test("an alert is shown, acknowledged and closed", async ({ array, open, page }) => {
  await array.ask("POST", "hosts", { name: "web1", initiators: ["iqn.1993-08.org.debian:01:web1"] });
  await array.ask("POST", "volumes", { name: "db1", size: 2 ** 30 });
  await array.ask("POST", "connections", { volume: "db1", host: "web1" });
  await array.ask("POST", "groups", { name: "sql", soft_quota: 2 ** 20 });
  await array.ask("PATCH", "volumes/db1", { group: "sql" });
  await open("/alerts");
  await expect(page.getByText("No active alerts")).toBeVisible();
  await array.work("iqn.1993-08.org.debian:01:web1", 0, ["write -P 7 0 4M"]);
  const row = page.getByRole("row", { name: /sql/ });
  await row.getByRole("button", { name: "Acknowledge" }).click();
  await expect(row.getByText("acknowledged by admin")).toBeVisible();
  await row.getByRole("button", { name: "Close" }).click();
  await expect(page.getByText("No active alerts")).toBeVisible();
  await page.getByText("Closed", { exact: true }).click();
  await expect(row.getByText(/^closed/)).toBeVisible();
});

test("what a volume group costs on the drives is measured", async ({ array, open, page }) => {
  await array.ask("POST", "hosts", { name: "web1", initiators: ["iqn.1993-08.org.debian:01:web1"] });
  await array.ask("POST", "volumes", { name: "db1", size: 2 ** 30 });
  await array.ask("POST", "connections", { volume: "db1", host: "web1" });
  await array.ask("POST", "groups", { name: "sql" });
  await array.ask("PATCH", "volumes/db1", { group: "sql" });
  await array.work("iqn.1993-08.org.debian:01:web1", 0, ["write -P 0 0 4M"]);
  await open("/groups/sql");
  await page.getByRole("button", { name: "Measure" }).click();
  await expect(page.getByText("Freed when deleted")).toBeVisible();
  await expect(page.locator("dt:text-is('Zeros') + dd")).toHaveText(/^4(\.0+)? MiB$/);
});

test("an LDAP server is added and changed; its secret is never shown, and users sign in while it is away", async ({ array, open, page }) => {
  await open("/settings/directories");
  await page.getByRole("button", { name: "Add directory" }).click();
  const add = page.getByRole("dialog", { name: "Add directory" });
  await add.getByRole("textbox", { name: "Name", exact: true }).fill("corp");
  await add.getByRole("combobox", { name: "Kind" }).click();
  await page.getByRole("option", { name: "LDAP" }).click();
  await add.getByRole("textbox", { name: "Server" }).fill("ldap.example.com");
  await add.getByRole("textbox", { name: "Base DN of users" }).fill("ou=people,dc=example,dc=com");
  await add.getByRole("textbox", { name: "Bind DN", exact: true }).fill("cn=array,dc=example,dc=com");
  await add.getByLabel("Bind password").and(page.locator("input")).fill("search-secret-1");
  await add.getByRole("textbox", { name: /^Group/ }).last().fill("cn=storage,ou=groups,dc=example,dc=com");
  await add.getByRole("button", { name: "Add", exact: true }).click();
  await expect(add.getByText("Write ldaps:// and a name")).toBeVisible();
  // There is no server: nothing listens on the port.
  await add.getByRole("textbox", { name: "Server" }).fill("ldap://127.0.0.1:1");
  await add.getByRole("button", { name: "Add", exact: true }).click();
  const row = page.getByRole("table", { name: "Directories" }).getByRole("row", { name: /corp/ });
  await expect(row).toContainText("cn=storage,ou=groups,dc=example,dc=com: admin");
  await page.getByRole("button", { name: "Test corp" }).click();
  await expect(page.getByRole("alert")).toContainText("ldap://127.0.0.1:1 failed");

  await page.getByRole("button", { name: "Change corp" }).click();
  const change = page.getByRole("dialog", { name: "Change corp" });
  await expect(change.getByRole("textbox", { name: "Server" })).toHaveValue("ldap://127.0.0.1:1");
  await expect(change.getByLabel("Bind password").and(page.locator("input"))).toHaveValue("");
  await change.getByRole("textbox", { name: "Base DN of groups" }).fill("ou=groups,dc=example,dc=com");
  await change.getByRole("button", { name: "Save" }).click();
  await expect(change.getByRole("alert")).toContainText("bind DN and its password");
  await change.getByLabel("Bind password").and(page.locator("input")).fill("search-secret-2");
  await change.getByRole("button", { name: "Save" }).click();
  await expect(change).toHaveCount(0);

  await array.ask("POST", "users", { name: "olga", role: "operator", password: "olgas password" });
  await page.evaluate(() => sessionStorage.clear());
  await page.goto(`${array.url}/volumes`);
  await signIn(page, "ada", "adas password");
  await expect(page.getByRole("alert")).toContainText("can't be asked");
  await signIn(page, "olga", "olgas password");
  await expect(page.getByRole("heading", { level: 1, name: "Volumes" })).toBeVisible();
});

test("users and tokens are made, changed and taken away; a certificate that is none is refused", async ({ array, open, page }) => {
  await open("/settings");
  await page.getByRole("tab", { name: "Users" }).click();
  const users = page.getByRole("table", { name: "Users" });
  await expect(users.getByText("(you)")).toBeVisible();
  await page.getByRole("button", { name: "Create user" }).click();
  const create = page.getByRole("dialog", { name: "Create user" });
  await create.getByRole("textbox", { name: "Name" }).fill("admin");
  await create.getByRole("textbox", { name: "Password", exact: true }).fill("a good password");
  await create.getByLabel("Repeat password").fill("a good password");
  await create.getByRole("button", { name: "Create" }).click();
  await expect(create.getByRole("alert")).toContainText("choose another");
  await create.getByRole("textbox", { name: "Name" }).fill("ada");
  await create.getByRole("button", { name: "Create" }).click();
  await expect(users.getByRole("row", { name: /ada operator/ })).toBeVisible();

  await users.getByRole("button", { name: "Change the role of admin" }).click();
  const role = page.getByRole("dialog", { name: "Role of admin" });
  await role.getByRole("combobox").click();
  await page.getByRole("option", { name: /viewer/ }).click();
  await role.getByRole("button", { name: "Save" }).click();
  await expect(role.getByRole("alert")).toContainText("admin");
  await role.getByRole("button", { name: "Cancel" }).click();

  await page.getByRole("tab", { name: "API tokens" }).click();
  await page.getByRole("button", { name: "Create token" }).click();
  const token = page.getByRole("dialog", { name: "Create token" });
  await token.getByRole("textbox", { name: "Name" }).fill("wall");
  await token.getByRole("checkbox", { name: "Allow acting on behalf of users" }).check();
  await token.getByRole("button", { name: "Create" }).click();
  const shown = page.getByRole("dialog", { name: "Token wall" });
  const secret = (await shown.locator("pre").first().textContent()) ?? "";
  const asks = (method: string, more = {}) => fetch(`${array.url}/api/v1/settings`, { method, headers: { authorization: `Bearer ${secret}`, "content-type": "application/json", ...more }, ...(method !== "GET" && { body: "{}" }) });
  expect((await asks("GET")).status).toBe(200);
  expect((await asks("GET", { "ashlar-on-behalf-of": "Ada" })).status).toBe(200);
  expect((await asks("PATCH")).status).toBe(403);
  await shown.getByRole("button", { name: "I have it" }).click();
  await page.reload();
  await expect(page.getByRole("table", { name: "API tokens" }).getByRole("row", { name: /wall admin viewer yes/ })).toBeVisible();
  await expect(page.getByText(secret)).toHaveCount(0);
  await page.getByRole("button", { name: "Revoke wall" }).click();
  await page.getByRole("dialog", { name: "Revoke wall?" }).getByRole("button", { name: "Revoke" }).click();
  await expect(page.getByText("No API tokens yet")).toBeVisible();
  expect((await asks("GET")).status).toBe(401);

  await page.getByRole("tab", { name: "Certificate" }).click();
  await expect(page.getByText("-----BEGIN CERTIFICATE-----")).toBeVisible();
  await page.getByRole("button", { name: "Replace" }).click();
  const replace = page.getByRole("dialog", { name: "Replace the certificate" });
  await replace.getByRole("textbox", { name: /Certificate/ }).fill("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----");
  await replace.getByRole("textbox", { name: /Private key/ }).fill("-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----");
  await replace.getByRole("button", { name: "Replace" }).click();
  await expect(replace.getByRole("alert")).toBeVisible();
  await replace.getByRole("button", { name: "Cancel" }).click();

  await page.getByRole("tab", { name: "Users" }).click();
  await users.getByRole("button", { name: "Delete ada" }).click();
  const deletion = page.getByRole("dialog", { name: "Delete ada?" });
  await deletion.getByRole("textbox").fill("ada");
  await deletion.getByRole("button", { name: "Delete" }).click();
  await expect(users.getByRole("row", { name: /ada/ })).toHaveCount(0);
});

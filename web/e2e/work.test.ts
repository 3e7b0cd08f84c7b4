/** Daily work with many volumes and hosts: filters, several at once, paths, views. */
import { expect, test } from "./array";
import { furnish } from "./furnish";

const ESX = "iqn.1998-01.com.vmware:esx1-1f3a";

test("volumes are filtered by group and host, and several are connected, snapshotted and deleted at once", async ({ array, open, page }) => {
  await furnish(array);
  for (const name of ["new1", "new2", "new3"]) await array.ask("POST", "volumes", { name, size: 2 ** 30 });
  await open("/volumes");
  const table = page.getByRole("table", { name: "Volumes", exact: true });
  const rows = table.getByRole("row");
  await page.getByRole("combobox", { name: "Filter by group" }).click();
  await page.getByRole("option", { name: "sql" }).click();
  await expect(rows).toHaveCount(3);
  await page.getByRole("combobox", { name: "Filter by host", exact: true }).click();
  await page.getByRole("option", { name: "web1" }).click();
  await expect(rows).toHaveCount(2);
  await expect(table.getByRole("link", { name: "db1" })).toBeVisible();
  await page.reload();

  await page.getByRole("searchbox", { name: "Search volumes" }).fill("new");
  await page.getByRole("checkbox", { name: "Select all volumes found" }).check();
  const selection = page.getByRole("region", { name: "Selection" });
  await expect(selection).toContainText("3 volumes selected");
  await selection.getByRole("button", { name: "Connect" }).click();
  const connect = page.getByRole("dialog", { name: "Connect 3 volumes" });
  await connect.getByRole("combobox", { name: "To" }).click();
  await page.getByRole("option", { name: "web1" }).click();
  await connect.getByRole("button", { name: "Connect" }).click();
  await expect(table.getByRole("row", { name: /new3/ })).toContainText("web1");

  await page.getByRole("checkbox", { name: "Select new1" }).check();
  await page.getByRole("checkbox", { name: "Select new2" }).check();
  await selection.getByRole("button", { name: "Take snapshots" }).click();
  const take = page.getByRole("dialog", { name: "Snapshots of 2 volumes" });
  await take.getByRole("textbox", { name: "Name suffix" }).fill("noon");
  await take.getByRole("button", { name: "Take snapshots" }).click();
  await expect(take).toHaveCount(0);
  expect(((await array.ask("GET", "snapshots")) as { items: { name: string }[] }).items.map((it) => it.name)).toEqual(expect.arrayContaining(["new1.noon", "new2.noon"]));

  // What prevents a deletion is named before a name is typed.
  await array.ask("DELETE", "connections/new3/web1");
  await page.getByRole("checkbox", { name: "Select new2" }).check();
  await page.getByRole("checkbox", { name: "Select new3" }).check();
  await selection.getByRole("button", { name: "Delete" }).click();
  const both = page.getByRole("dialog", { name: "Delete 2 volumes?" });
  await expect(both.getByRole("alert")).toContainText("new2: connected to hosts");
  await expect(both.getByRole("textbox")).toHaveCount(0);
  await both.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("checkbox", { name: "Select new2" }).uncheck();
  await selection.getByRole("button", { name: "Delete" }).click();
  const deletion = page.getByRole("dialog", { name: /^Delete / });
  await deletion.getByRole("textbox").fill("1 volume");
  await deletion.getByRole("button", { name: "Delete" }).click();
  await expect(table.getByRole("link", { name: "new3" })).toHaveCount(0);
});

test("the columns of a list are chosen, and stay", async ({ array, open, page }) => {
  await furnish(array);
  await open("/volumes");
  const heading = page.getByRole("table", { name: "Volumes", exact: true }).getByRole("columnheader", { name: "Created" });
  await expect(heading).toHaveCount(0);
  await page.getByRole("button", { name: "Columns of volumes" }).click();
  await page.getByRole("checkbox", { name: "Created" }).check();
  await expect(heading).toBeVisible();
  await page.reload();
  await expect(heading).toBeVisible();
});

test("a volume is deleted with its snapshots, or without those under a retention lock", async ({ array, open, page }) => {
  await array.ask("POST", "volumes", { name: "db", size: 2 ** 30 });
  await array.ask("POST", "snapshots", { volume: "db", suffix: "a" });
  await array.ask("POST", "snapshots", { volume: "db", suffix: "locked", retain_until: new Date(Date.now() + 30 * 86_400_000).toISOString() });
  await open("/volumes/db");
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  const deletion = page.getByRole("dialog", { name: "Delete db?" });
  await expect(deletion).toContainText("1 snapshot is under a retention lock");
  await expect(deletion.getByRole("radio", { name: /Keep the snapshots/ })).toBeChecked();
  await deletion.getByRole("radio", { name: /Delete the snapshots/ }).check();
  await deletion.getByRole("textbox").fill("db");
  await deletion.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No volumes yet")).toBeVisible();
  const left = (await array.ask("GET", "snapshots")) as { items: { name: string }[] };
  expect(left.items.map((it) => it.name)).toEqual(["db.locked"]);
});

test("a host's page has its paths and their balance, connects volumes, and shows why a log-in was refused", async ({ array, open, page }) => {
  await furnish(array);
  await array.ask("POST", "volumes", { name: "more", size: 2 ** 30 });
  await open("/hosts/esx1");
  await expect(page.getByText("Not logged in", { exact: true })).toBeVisible();
  // A session that stays for a while.
  const busy = array.work(ESX, 0, Array.from({ length: 40 }, () => ["read 0 4k", "sleep 250"]).flat());
  const paths = page.getByRole("table", { name: "Paths" });
  await expect(paths.getByRole("row", { name: /1 session/ })).toHaveCount(1);
  await expect(paths.getByRole("row", { name: /no session/ })).toHaveCount(1);
  await expect(page.getByText("Single path")).toBeVisible();
  await busy;

  await page.getByRole("button", { name: "Connect", exact: true }).click();
  const connect = page.getByRole("dialog", { name: "Connect volumes to esx1" });
  await connect.getByRole("combobox", { name: "Volumes" }).click();
  await page.getByRole("option", { name: "more" }).click();
  await connect.getByRole("button", { name: "Connect" }).click();
  await expect(page.getByRole("table", { name: "Volumes of the host" }).getByRole("link", { name: "more" })).toBeVisible();

  // CHAP is required of web1.
  await expect(array.work("iqn.1993-08.org.debian:01:web1", 0, ["read 0 4k"])).rejects.toThrow();
  await open("/hosts/web1");
  await expect(page.getByRole("table", { name: "Refused log-ins" })).toContainText("CHAP");
});

test("the first run sets a password, and offers drives with what is on them", async ({ array, open, page }) => {
  await open("/setup");
  await expect(page.getByRole("table", { name: "Drives of the array" }).getByRole("row")).toHaveCount(7);
  await page.getByRole("button", { name: "Add drive" }).click();
  const add = page.getByRole("dialog", { name: "Add drive" });
  await expect(add.getByText(/No other drives on the server|Drives of the server/)).toBeVisible();
  await add.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByLabel("New password of admin").fill("my own password");
  await page.getByLabel("Repeat password").fill("another password");
  await page.getByRole("button", { name: "Set password" }).click();
  await expect(page.getByText("The passwords differ.")).toBeVisible();
  await page.getByLabel("Repeat password").fill("my own password");
  await page.getByRole("button", { name: "Set password" }).click();
  await expect(page.getByText("No notification targets")).toBeVisible();
  const signed = await fetch(`${array.url}/api/v1/session`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ user: "admin", password: "my own password" }) });
  expect(signed.ok).toBe(true);
});

test("what is chosen in the analysis is saved as a view, and shown again", async ({ array, open, page }) => {
  await furnish(array);
  await open("/performance?of=volume:db2&last=3600&percentile=p99&work=read");
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("menuitem", { name: "Save this view" }).click();
  const save = page.getByRole("dialog", { name: "Save view" });
  await save.getByRole("textbox", { name: "Name" }).fill("db2 reads");
  await save.getByRole("button", { name: "Save" }).click();
  await open("/performance");
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("menuitem", { name: "db2 reads" }).click();
  await expect(page).toHaveURL(/of=volume(:|%3A)db2&last=3600&percentile=p99&work=read/);
  await expect(page.getByRole("radio", { name: "p99", exact: true })).toBeChecked();
});

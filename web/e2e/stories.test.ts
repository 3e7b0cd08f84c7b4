/** What people come for, from the first sign-in to a volume that comes back from the recycle bin. */
import { expect, test } from "./array";

test("a token is asked for; a wrong one is refused with what to do", async ({ array, page }) => {
  await page.goto(`${array.url}/volumes`);
  const token = page.getByLabel(/^Token/);
  await expect(token).toBeFocused();
  await token.fill("not the one");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("of this array");
  await token.fill(array.token);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Volumes" })).toBeVisible();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(token).toBeVisible();
});

test("a host and a volume are made and connected; the volume is deleted and restored", async ({ open, page }) => {
  await open("/");
  await page.getByRole("link", { name: "Add the first host" }).click();
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
  await refused.getByRole("textbox").fill("db1");
  await refused.getByRole("button", { name: "Delete" }).click();
  await expect(refused.getByRole("alert")).toContainText("disconnect");
  await refused.getByRole("button", { name: "Cancel" }).click();

  await connections.getByRole("button", { name: "Disconnect" }).click();
  await page.getByRole("dialog", { name: /Disconnect/ }).getByRole("button", { name: "Disconnect" }).click();
  await expect(page.getByText("No host sees it")).toBeVisible();
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

test("an array that goes away says so, and the page goes on when it is back", async ({ array, open, page }) => {
  await open("/");
  await expect(page.getByText("Online")).toBeVisible();
  await array.stop();
  await expect(page.getByText("Unreachable")).toBeVisible();
});

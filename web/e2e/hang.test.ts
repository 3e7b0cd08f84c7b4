/** A daemon that hangs: pages say so, and a reload still shows the interface. */
import { expect, test } from "./array";

test.use({ serviceWorkers: "allow" });

test.afterEach(({ array }) => array.goOn());

test("a daemon that hangs is not responding, also after a reload; when it responds again, the pages resume", async ({ array, open, page }) => {
  await open("/volumes");
  await expect(page.getByText("Online")).toBeVisible();
  // Until the page and its files are kept in the browser.
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
  await expect.poll(() => page.evaluate(async () => (await caches.match("/")) !== undefined)).toBe(true);

  array.hang();
  await expect(page.getByRole("banner").getByText("Not responding")).toBeVisible();
  await expect(page.getByRole("alert").filter({ hasText: "The array is not responding" })).toContainText("What is shown is from");
  await expect(page.getByRole("heading", { level: 1, name: "Volumes" })).toBeVisible();

  await page.reload({ waitUntil: "commit" });
  await expect(page.getByRole("banner").getByText("Not responding")).toBeVisible();
  await expect(page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Volumes" })).toBeVisible();

  array.goOn();
  await expect(page.getByText("Online")).toBeVisible();
  await expect(page.getByRole("heading", { level: 1, name: "Volumes" })).toBeVisible();
});

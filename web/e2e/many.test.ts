/** An array of the size that people have, 1,000 volumes and 200 hosts: pages stay as light as with ten. */
import type { Page } from "@playwright/test";
import { expect, test, type RunningArray } from "./array";

const VOLUMES = 1000;
const HOSTS = 200;

/** Number of concurrent requests; the array responds to each when it is stored. */
async function each(count: number, work: (index: number) => Promise<unknown>) {
  const workers = Array.from({ length: 8 }, async (_, first) => {
    for (let index = first; index < count; index += 8) await work(index);
  });
  await Promise.all(workers);
}

/** Names as `vm0007`, each volume connected to a host, all hosts in one group that has a volume, too. */
async function crowd(array: RunningArray) {
  const name = (kind: string, index: number) => `${kind}${`${index}`.padStart(4, "0")}`;
  await each(HOSTS, (index) => array.ask("POST", "hosts", { name: name("esx", index), initiators: [`iqn.1998-01.com.vmware:esx${index}`] }));
  await each(VOLUMES, async (index) => {
    await array.ask("POST", "volumes", { name: name("vm", index), size: 2 ** 30 });
    await array.ask("POST", "connections", { volume: name("vm", index), host: name("esx", index % HOSTS) });
  });
  await array.ask("POST", "host-groups", { name: "cluster", hosts: Array.from({ length: HOSTS }, (_, index) => name("esx", index)) });
  await array.ask("POST", "volumes", { name: "shared", size: 2 ** 30 });
  await array.ask("POST", "connections", { volume: "shared", host_group: "cluster" });
}

/** Says what was measured, when MEASURE asks for it; nothing is made of it here. */
function measured(what: string, value: number, unit: string) {
  if (process.env["MEASURE"]) console.log(`measured: ${what}: ${value.toFixed(1)} ${unit}`);
}

/** Milliseconds from the question for the document to the first paint of content. */
const firstPaint = (page: Page) =>
  page.evaluate(
    () =>
      new Promise<number>((done) => {
        new PerformanceObserver((list) => {
          const paint = list.getEntriesByName("first-contentful-paint")[0];
          if (paint) done(paint.startTime);
        }).observe({ type: "paint", buffered: true });
      }),
  );

test("a thousand volumes of two hundred hosts are listed, found and shown a page at a time", async ({ array, open, page }) => {
  test.setTimeout(600_000);
  await crowd(array);

  for (const path of ["volumes", "hosts", "connections"]) {
    const began = performance.now();
    const list = (await array.ask("GET", path)) as { items: unknown[] };
    measured(`GET ${path}`, performance.now() - began, "ms");
    expect(list.items).toHaveLength({ volumes: VOLUMES + 1, hosts: HOSTS, connections: VOLUMES + 1 }[path] ?? 0);
  }

  await open("/");
  measured("first paint of the dashboard", await firstPaint(page), "ms");
  // One request has all that the list shows: none is about a single volume.
  const single: string[] = [];
  page.on("request", (request) => void (/\/api\/v1\/volumes\//.test(request.url()) && single.push(request.url())));
  await open("/volumes");
  measured("first paint of the volumes", await firstPaint(page), "ms");
  const volumes = page.getByRole("table", { name: "Volumes", exact: true });
  const rows = volumes.getByRole("row");
  await expect(page.getByRole("status").filter({ hasText: "1,001 volumes" })).toBeVisible();
  await expect(volumes.getByRole("columnheader", { name: "Data to own space" })).toBeVisible();
  expect(single).toEqual([]);
  // Fifty and the heading, however many there are.
  await expect(rows).toHaveCount(51);
  await page.getByRole("button", { name: "Page 21", exact: true }).click();
  await expect(volumes.getByRole("link", { name: "vm0999" })).toBeVisible();
  await expect(rows).toHaveCount(2);
  const search = page.getByRole("searchbox", { name: "Search volumes" });
  await search.fill("vm077");
  await expect(rows).toHaveCount(11);
  await search.fill("vm0777");
  await volumes.getByRole("link", { name: "vm0777" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "vm0777" })).toBeVisible();
  await expect(page.getByRole("table", { name: "Connections" }).getByRole("link", { name: "esx0177" })).toBeVisible();

  await open("/hosts");
  await expect(page.getByRole("table", { name: "Hosts", exact: true }).getByRole("row")).toHaveCount(51);
  await open("/host-groups/cluster");
  await expect(page.getByRole("link", { name: "shared" })).toBeVisible();
  // Fifty of each kind are enough to choose from; the rest is found by typing.
  await open("/performance");
  await page.getByRole("combobox", { name: "Scope", exact: true }).click();
  await expect(page.getByRole("option", { name: "vm0000" })).toBeVisible();
  expect(await page.getByRole("listbox", { name: "Scope", exact: true }).getByRole("option").count()).toBeLessThanOrEqual(151);
  await page.getByRole("combobox", { name: "Scope", exact: true }).fill("vm0777");
  await page.getByRole("option", { name: "vm0777" }).click();
  await expect(page).toHaveURL(/of=volume%3Avm0777/);
});

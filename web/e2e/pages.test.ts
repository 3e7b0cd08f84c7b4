/** Every page over a real array: it shows, nothing hinders people (axe), in light and dark, on a wide and a narrow screen. */
import type { Page } from "@playwright/test";
import { expect, test } from "./array";
import { furnish } from "./furnish";
import { hindrances } from "./hindrances";

/** Address, and what is its heading. */
const PAGES: [string, string][] = [
  ["/", "Dashboard"],
  ["/search?q=db", "Search"],
  ["/volumes", "Volumes"],
  ["/volumes/db1", "db1"],
  ["/hosts", "Hosts"],
  ["/hosts/web1", "web1"],
  ["/groups", "Volume groups"],
  ["/groups/sql", "sql"],
  ["/host-groups", "Host groups"],
  ["/host-groups/cluster", "cluster"],
  ["/snapshots", "Snapshots"],
  ["/snapshots/db1.first", "db1.first"],
  ["/schedules", "Schedules"],
  ["/replications", "Replication"],
  ["/performance", "Performance"],
  ["/performance?of=volume:db1&against=host:web1", "Performance"],
  ["/recycle-bin", "Recycle bin"],
  ["/controllers", "Controllers"],
  ["/drives", "Drives"],
  ["/alerts", "Alerts"],
  ["/jobs", "Jobs"],
  ["/events", "Events"],
  ["/audit", "Audit log"],
  ["/settings", "Settings"],
  ["/settings/portals", "Settings"],
  ["/settings/users", "Settings"],
  ["/settings/tokens", "Settings"],
  ["/settings/key", "Settings"],
  ["/settings/notifications", "Settings"],
  ["/settings/upgrade", "Settings"],
  ["/settings/support", "Settings"],
  ["/settings/certificate", "Settings"],
  ["/setup", "Set up the array"],
  ["/nowhere", "Page not found"],
];

/** A picture to look at, in the folder that SHOTS names. */
async function shot(page: Page, kind: string, path: string) {
  if (process.env["SHOTS"]) await page.screenshot({ path: `${process.env["SHOTS"]}/${kind}${path.replaceAll(/[^a-z0-9]/g, "-")}.png`, fullPage: true, caret: "initial" });
}

for (const scheme of ["light", "dark"] as const) {
  test(`every page can be used by everybody, ${scheme}`, async ({ array, open, page }) => {
    test.setTimeout(900_000);
    await furnish(array);
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    for (const [path, heading] of PAGES) {
      await test.step(path, async () => {
        await open(path);
        await expect(page.getByRole("heading", { level: 1, name: heading })).toBeVisible();
        await expect(page.locator(".mantine-Skeleton-root")).toHaveCount(0);
        expect(await hindrances(page), path).toEqual([]);
        await shot(page, scheme, path);
      });
    }
  });
}

/** Cells of tables that are so narrow that each line has a word or two. */
const squeezed = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("td, th")].flatMap((cell) => {
      const text = cell.textContent.trim();
      const range = document.createRange();
      range.selectNodeContents(cell);
      const lines = range.getBoundingClientRect().height / Number.parseFloat(getComputedStyle(cell).lineHeight);
      return lines > 3.5 && text.length / lines < 14 ? [`${text} (${cell.clientWidth} pixels)`] : [];
    }),
  );

/** An alert as long as they are; a new array has none. */
const ALERT = {
  id: 1, kind: "host.one-path", noun: "host", name: "web1", state: "open", severity: "warning", opened: "2026-10-01T08:00:00Z", changed: "2026-10-01T08:00:00Z", acknowledged_by: null, closed: null,
  message: 'host "web1" is logged in at portal 127.0.0.1:3260 only: a failure of that path cuts it off; log in at every portal, and check its network',
};

for (const width of [390, 768, 1024]) test(`every page fits a screen of ${width} pixels`, async ({ array, open, page }) => {
  test.setTimeout(900_000);
  await furnish(array);
  await page.setViewportSize({ width, height: 800 });
  await page.route("**/api/v1/alerts", (route) => route.fulfill({ json: { items: [ALERT], total: 1 } }));
  for (const [path] of PAGES) {
    await open(path);
    await expect(page.locator(".mantine-Skeleton-root")).toHaveCount(0);
    expect(await squeezed(page), path).toEqual([]);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(over, path).toBeLessThanOrEqual(0);
    await shot(page, `${width}`, path);
  }
});

test("the sign-in page can be used by everybody", async ({ array, page }) => {
  await page.goto(array.url);
  await expect(page.getByRole("button", { name: "Sign in" })).toBeVisible();
  expect(await hindrances(page)).toEqual([]);
});

test("the policy of pages lets no script and no style in that the array did not send", async ({ array, browser }) => {
  // A window of its own: that the browser complains is what is wanted here.
  const page = await browser.newPage();
  await page.goto(`${array.url}/#token=${array.token}`);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  const refused = await page.evaluate(async () => {
    const directives: string[] = [];
    document.addEventListener("securitypolicyviolation", (it) => directives.push(it.effectiveDirective));
    const add = (name: "script" | "style", text: string) => document.head.appendChild(Object.assign(document.createElement(name), { textContent: text }));
    add("style", "body { display: none }");
    add("script", "globalThis.gotIn = true");
    document.body.insertAdjacentHTML("beforeend", '<i style="color: red"></i>');
    await new Promise((done) => setTimeout(done, 0));
    return { directives: directives.sort(), display: getComputedStyle(document.body).display, gotIn: "gotIn" in globalThis };
  });
  expect(refused).toEqual({ directives: ["script-src-elem", "style-src-attr", "style-src-elem"], display: "block", gotIn: false });
  await page.close();
});

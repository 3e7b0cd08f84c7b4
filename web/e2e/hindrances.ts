/** What axe finds on a page. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "@playwright/test";
import type { AxeResults } from "axe-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What hinders people on the page, as `rule: where`. */
export async function hindrances(page: Page): Promise<string[]> {
  // By the debugger's door: the page's own policy lets no script in.
  await page.evaluate(AXE);
  const found = await page.evaluate(() => (globalThis as unknown as { axe: { run: () => Promise<AxeResults> } }).axe.run());
  return found.violations
    .filter((it) => it.impact === "serious" || it.impact === "critical")
    .flatMap((it) => it.nodes.map((node) => `${it.id}: ${node.html.slice(0, 200)} ${node.failureSummary ?? ""}`));
}

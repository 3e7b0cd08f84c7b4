/** The API reference, from the description that the array serves; the browser complains if anything is fetched from elsewhere. */
import { expect, test } from "./array";
import { hindrances } from "./hindrances";

test("the reference has every operation, and tries out those that change nothing", async ({ array, open, page }) => {
  const description = (await array.ask("GET", "openapi.json")) as { paths: Record<string, Record<string, { tags: string[] }>> };
  const operations = Object.values(description.paths).flatMap((methods) => Object.values(methods));
  const ofVolumes = operations.filter((it) => it.tags.includes("volumes")).length;
  await open("/");
  await page.getByRole("button", { name: /Signed in as/ }).click();
  await page.getByRole("menuitem", { name: "API reference" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "API reference" })).toBeVisible();
  const reference = page.locator(".api-reference");
  await expect(reference.locator(".opblock-tag")).toHaveCount(new Set(operations.flatMap((it) => it.tags)).size);
  await reference.locator("#operations-tag-volumes").click();
  await expect(reference.locator(".opblock")).toHaveCount(ofVolumes);

  const list = reference.locator("#operations-volumes-list_volumes");
  await list.getByText("List volumes").click();
  await list.getByRole("button", { name: "Try it out" }).click();
  await list.getByRole("button", { name: "Execute" }).click();
  await expect(list.locator(".live-responses-table .response td.response-col_status")).toContainText("200");
  const create = reference.locator("#operations-volumes-create_volume");
  await create.getByText("Create a volume, or clone a volume or snapshot").click();
  await expect(create.getByText("Request body")).toBeVisible();
  await expect(create.getByRole("button", { name: "Try it out" })).toHaveCount(0);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", colorScheme);
    expect(await hindrances(page), colorScheme).toEqual([]);
  }
});

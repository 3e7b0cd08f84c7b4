import type { Page } from "@playwright/test";

/** From the drives to the first host, with the password kept and no notification target. `name`: what to call the array. */
export async function throughSetup(page: Page, name?: string) {
  await page.getByRole("button", { name: "Next" }).click();
  if (name) await page.getByRole("textbox", { name: "Name of the array" }).fill(name);
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByRole("button", { name: "Keep password" }).click();
  await page.getByRole("button", { name: "Without notifications" }).click();
  await page.getByText("Portals of the start are options of ashlard").waitFor();
  await page.getByRole("button", { name: "Next" }).click();
}

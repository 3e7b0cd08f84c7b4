/** The vSphere Client that a test of `integrations/go` stands in for: its pages of the plug-in, by user and object. */
import { test as base, type Page } from "@playwright/test";
import { mkdirSync } from "node:fs";
import { hindrances } from "../hindrances";
import { expect } from "../array";

const CLIENT = process.env["VSPHERE_CLIENT"] ?? "";

async function post(path: string): Promise<unknown> {
  const response = await fetch(`${CLIENT}/stand/${path}`, { method: "POST" });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  const text = await response.text();
  return text === "" ? undefined : JSON.parse(text);
}

export class Stand {
  private constructor(readonly objects: Record<string, string>) {}

  static async find(): Promise<Stand> {
    if (CLIENT === "") throw new Error("VSPHERE_CLIENT is not set: TestPages of integrations/go runs these tests");
    return new Stand((await (await fetch(`${CLIENT}/stand`)).json()) as Record<string, string>);
  }

  /** Begins a session of the client, and returns its token. */
  signIn = async (user: string): Promise<string> => (await post(`session/${user}`)) as string;

  /** Ends it, with the sessions that were cloned from it. */
  leave = (token: string): Promise<unknown> => post(`leave/${token}`);

  change = (what: "maintenance" | "disconnected" | "broken" | "stop" | "start"): Promise<unknown> => post(what);

  /** Tasks of vCenter: how many of each kind and state. */
  tasks = async (): Promise<Record<string, number>> => (await post("tasks")) as Record<string, number>;

  address(view: string, token: string, object: string | undefined, theme: string): string {
    const query = new URLSearchParams({ view, token, theme, ...(object !== undefined && { object: this.objects[object] ?? object }) });
    return `${CLIENT}/plugins/ashlar/plugin.html?${query.toString()}`;
  }
}

type Given = { user?: string; token?: string; theme?: "light" | "dark" };
type Fixtures = {
  stand: Stand;
  /** Goes to a view of an object, as the client shows it. */
  open: (view: string, object?: string, given?: Given) => Promise<Page>;
};

/** A browser that reports what it must never do: errors on the console, and requests to anything but the client. */
export const test = base.extend<Fixtures>({
  // eslint-disable-next-line no-empty-pattern -- Playwright wants a pattern here
  stand: async ({}, use) => use(await Stand.find()),
  page: async ({ page }, use) => {
    const wrong: string[] = [];
    page.on("pageerror", (error) => wrong.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) wrong.push(message.text());
    });
    page.on("request", (request) => {
      if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(CLIENT)) wrong.push(`asked ${request.url()}`);
    });
    await use(page);
    if (wrong.length > 0) throw new Error(`the browser complains:\n${wrong.join("\n")}`);
  },
  open: async ({ page, stand }, use) => {
    await use(async (view, object, { user = "ada", token, theme = "light" } = {}) => {
      await page.goto(stand.address(view, token ?? (await stand.signIn(user)), object, theme));
      return page;
    });
  },
});

/** It is shown whole, nothing hinders people (axe), and a picture for the docs is taken if SHOTS names their folder. */
export async function shown(page: Page, picture: string): Promise<void> {
  await expect(page.locator(".mantine-Skeleton-root")).toHaveCount(0);
  // Transitions to other colours have ended.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  expect(await hindrances(page), picture).toEqual([]);
  const folder = process.env["SHOTS"];
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  for (const it of await page.locator(".mantine-Notifications-root").all()) await it.evaluate((element) => (element as HTMLElement).style.setProperty("display", "none"));
  await page.screenshot({ path: `${folder}/${picture}.png` });
}

export { expect };

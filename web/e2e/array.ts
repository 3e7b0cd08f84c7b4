/** A real array for a test: `ashlard` in a folder of its own, new for each test, gone with it. */
import { test as base, type Page } from "@playwright/test";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

type Ready = { target_iqn: string; portals: string[]; api: string; replication?: string };

export class RunningArray {
  private constructor(
    private readonly process: ChildProcess,
    readonly folder: string,
    readonly ready: Ready,
    readonly token: string,
  ) {}

  /** Starts one and waits until it serves. */
  static async start(folder: string, more: string[] = []): Promise<RunningArray> {
    const program = process.env["ASHLARD"];
    if (!program) throw new Error("ASHLARD must name the daemon; `cargo xtask web --check` sets it");
    const words = ["--data", folder, "--iscsi", "127.0.0.1:0,127.0.0.1:0", "--api", "127.0.0.1:0", "--drives", "6", "--drive-size", "1GiB", ...more];
    const child = spawn(program, words, { stdio: ["ignore", "pipe", process.env["ASHLARD_LOG"] ? "inherit" : "ignore"] });
    const lines = createInterface({ input: child.stdout });
    const first = (await Promise.race([once(lines, "line"), once(child, "exit")])) as unknown[];
    if (typeof first[0] !== "string") throw new Error(`ashlard ended with ${String(first[0])}; ASHLARD_LOG=1 shows why`);
    const ready = JSON.parse(first[0]) as Ready;
    const access = JSON.parse(readFileSync(join(folder, "api.json"), "utf8")) as { token: string };
    return new RunningArray(child, folder, ready, access.token);
  }

  async stop(): Promise<void> {
    if (this.process.exitCode !== null) return;
    this.process.kill("SIGTERM");
    await once(this.process, "exit");
  }

  /** Lets the daemon hang: it keeps its connections and answers nothing. */
  hang(): void {
    this.process.kill("SIGSTOP");
  }

  /** Lets it go on. */
  goOn(): void {
    this.process.kill("SIGCONT");
  }

  get url(): string {
    return this.ready.api;
  }

  /** Work of a host on a LUN, by a client that is not ours: `read 0 1M`, `write -P 7 0 1M`, … */
  async work(initiator: string, lun: number, commands: string[]): Promise<void> {
    const image = `driver=iscsi,transport=tcp,portal=${this.ready.portals[0]},target=${this.ready.target_iqn},lun=${lun},initiator-name=${initiator}`;
    const client = spawn("qemu-io", ["--image-opts", image, ...commands.flatMap((it) => ["-c", it])], { stdio: "ignore" });
    const [code] = (await once(client, "exit")) as [number];
    if (code !== 0) throw new Error(`qemu-io ended with ${code}`);
  }

  /** Asks the API, to prepare what a test is not about; throws when it refuses. */
  async ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const response = await fetch(`${this.url}/api/v1/${path}`, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }
}

type Fixtures = {
  array: RunningArray;
  /** Goes to a page as a user who has signed in. */
  open: (path: string) => Promise<Page>;
};

/** A browser that reports what it must never do: errors on the console, and requests to anything but the array. */
export const test = base.extend<Fixtures>({
  // eslint-disable-next-line no-empty-pattern -- Playwright wants a pattern here
  array: async ({}, use) => {
    const folder = mkdtempSync(join(tmpdir(), "ashlar-web-"));
    const array = await RunningArray.start(folder);
    await use(array);
    await array.stop();
    rmSync(folder, { recursive: true, force: true });
  },
  page: async ({ page, array }, use) => {
    const wrong: string[] = [];
    page.on("pageerror", (error) => wrong.push(error.message));
    page.on("console", (message) => {
      // A refusal of the array is shown on the page; the browser writes it down as well.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) wrong.push(message.text());
    });
    page.on("request", (request) => {
      if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(array.url)) wrong.push(`asked ${request.url()}`);
    });
    await use(page);
    if (wrong.length > 0) throw new Error(`the browser complains:\n${wrong.join("\n")}`);
  },
  open: async ({ page, array }, use) => {
    await use(async (path) => {
      await page.goto(`${array.url}${path}#token=${array.token}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      return page;
    });
  },
});

/** Signs in on the page that asks for it. */
export async function signIn(page: Page, user: string, password: string) {
  await page.getByRole("textbox", { name: "User" }).fill(user);
  await page.getByLabel("Password", { exact: false }).and(page.locator("input")).fill(password);
  await page.keyboard.press("Enter");
}

export { expect } from "@playwright/test";

/** The requests of the pages to the plug-in's server: for its own answers, and for an array's answers through it. */
import { Refusal } from "../api/refusal";
import { takeRoute } from "../api/route";
import { session } from "../api/session";
import { serverOf, tokenOf, type Sdk, type Subject } from "./sdk";

export type May = { view: boolean; manage: boolean };

/** A page's data about its object. */
export type Context = {
  name: string;
  user: string;
  may: May;
  arrays: { name: string; url: string }[];
  array?: string;
  volume?: string;
  size?: number;
  capacity?: number;
  free?: number;
  cluster?: string;
  machines?: string[];
};

export type Progress = { number: number; total: number; step: string; state: "begins" | "done" | "failed" | "undone" | "stays"; reason?: string };
export type Change = { host: string; setting: string; object?: string; from: string; to: string; reboot: boolean; outcome: "planned" | "changed" | "failed" | "not done"; error?: string };
export type Work = { id: string; title: string; state: "running" | "done" | "failed"; steps: Progress[]; reason?: string; changes?: Change[] };

export type Finding = { host: string; setting: string; title: string; object?: string; current: string; recommended: string; verdict: "ok" | "deviates" | "advice" | "unknown"; severity: "critical" | "warning" | "info"; why: string; reboot: boolean; optional: boolean; fixable: boolean };
export type Report = { scope: string; hosts: string[] | null; unread: string[]; notes: string[]; findings: Finding[]; changes?: Change[] };
export type StoreRow = { id: string; name: string; volume: string; capacity: number; free: number; mapped: number; machines: string[] };

const HEADER = "vmware-api-session-id";

/** The plug-in's server for the page of one object. */
export class Server {
  private constructor(
    private readonly sdk: Sdk,
    private readonly base: string,
    private token: string,
    readonly subject: Subject | undefined,
    readonly vcenter: string,
  ) {}

  static async connect(sdk: Sdk, subject: Subject | undefined): Promise<Server> {
    const base = `${serverOf(sdk)}/rest`;
    const token = await tokenOf(sdk);
    const vcenter = subject?.vcenter ?? (await Server.about(base));
    return new Server(sdk, base, token, subject, vcenter);
  }

  private static async about(base: string): Promise<string> {
    const response = await fetch(`${base}/about?client=${encodeURIComponent(location.hostname)}`).catch((error: unknown) => {
      throw unreachable(error);
    });
    if (!response.ok) throw await refusalOf(response);
    return ((await response.json()) as { vcenter: string }).vcenter;
  }

  private get place(): string {
    const object = this.subject ? `${this.subject.type}:${this.subject.id}` : "root";
    return `${this.base}/${encodeURIComponent(this.vcenter)}/${encodeURIComponent(object)}`;
  }

  /** Sends with the session of the user. The client may have replaced a refused session. */
  private async send(url: string, init: RequestInit): Promise<Response> {
    const once = async () => {
      const headers = new Headers(init.headers);
      headers.set(HEADER, this.token);
      return fetch(url, { ...init, headers });
    };
    try {
      const response = await once();
      if (response.status !== 401) return response;
      const next = await tokenOf(this.sdk);
      if (next === this.token) return response;
      this.token = next;
      return await once();
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw unreachable(error);
    }
  }

  async ask<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const response = await this.send(`${this.place}/${path}`, {
      ...(signal && { signal }),
      ...(body !== undefined && { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    if (response.status === 401) session.ended();
    if (!response.ok) throw await refusalOf(response);
    return (await response.json()) as T;
  }

  /** Sends the requests of the array's pages to this server from now on. */
  showArray(name: string): void {
    takeRoute(async (request) => {
      const { pathname, search } = new URL(request.url);
      const body = request.method === "GET" || request.method === "DELETE" ? undefined : await request.text();
      return this.send(`${this.place}/arrays/${encodeURIComponent(name)}${pathname}${search}`, {
        method: request.method,
        signal: request.signal,
        headers: { "content-type": "application/json" },
        ...(body !== undefined && { body }),
      });
    });
  }
}

function unreachable(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal("The plug-in’s server can’t be reached", "Check that ashlar-vsphere serve runs and that vCenter reaches it. The page resumes by itself.", 0, "unreachable");
}

async function refusalOf(response: Response): Promise<Refusal> {
  const sent: unknown = await response.json().catch(() => undefined);
  return Refusal.of(sent ?? new Error(`The plug-in’s server answered ${response.status}.`));
}

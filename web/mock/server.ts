/** The array in memory for `fetch` (in tests) or the development server. */
import type { IncomingMessage } from "node:http";
import type { Plugin } from "vite";
import { busy, Problem, type State } from "./array";
import { handlers } from "./handlers";

type Handler = (state: State, input: { path: Record<string, string>; query: URLSearchParams; body: unknown }) => unknown;

export class Mock {
  /** What was asked, as `POST /api/v1/volumes`. */
  readonly asked: string[] = [];
  /** Whether a directory said who is there: stands for the cookie. */
  private session = false;

  constructor(public state: State) {}

  readonly fetch = async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    const { standby } = this.state;
    if (standby) return problem(new Problem(503, "standby", "Standby controller", standby.detail), standby.home);
    this.asked.push(`${request.method} ${url.pathname}`);
    if (url.pathname === "/api/v1/sign-in") this.session ||= request.method === "POST";
    else if (!this.session && !request.headers.get("authorization")) return problem(new Problem(401, "unauthorized", "Not signed in", "send the array's token"));
    const text = await request.text();
    return this.answer(request.method, url, text === "" ? undefined : JSON.parse(text));
  };

  private answer(method: string, url: URL, body: unknown): Response {
    for (const [pattern, methods] of Object.entries(handlers)) {
      const path = match(pattern, url.pathname);
      if (!path) continue;
      const handler = (methods as Record<string, Handler | undefined>)[method.toLowerCase()];
      if (!handler) break;
      try {
        const answer = handler(this.state, { path, query: url.searchParams, body });
        if (answer === undefined) return new Response(null, { status: 204 });
        return Response.json(answer, { status: method === "POST" ? 201 : 200 });
      } catch (error) {
        if (error instanceof Problem) return problem(error);
        throw error;
      }
    }
    return problem(new Problem(501, "failed", "Not in the mock", `${method} ${url.pathname} has no handler in web/mock`));
  }
}

function problem({ status, kind, title, message }: Problem, home?: string): Response {
  const body = JSON.stringify({ type: `urn:ashlar:problem:${kind}`, title, status, detail: message, kind, home });
  return new Response(body, { status, headers: { "content-type": "application/problem+json" } });
}

function match(pattern: string, path: string): Record<string, string> | undefined {
  const names: string[] = [];
  const source = pattern.replace(/\{(\w+)\}/g, (_, name: string) => {
    names.push(name);
    return "([^/]+)";
  });
  const found = new RegExp(`^${source}$`).exec(path);
  return found ? Object.fromEntries(names.map((name, index) => [name, decodeURIComponent(found[index + 1] ?? "")])) : undefined;
}

/** Serves the array in memory at /api of the development server. Any token is taken. */
export function mockArray(): Plugin {
  const mock = new Mock(busy());
  return {
    name: "mock-array",
    apply: "serve",
    configureServer(server) {
      server.middlewares.use((incoming, outgoing, next) => {
        if (!incoming.url?.startsWith("/api/")) {
          next();
          return;
        }
        void read(incoming).then(async (body) => {
          const headers = Object.entries(incoming.headers).filter((it): it is [string, string] => typeof it[1] === "string");
          const init = { method: incoming.method ?? "GET", headers: headers.filter(([name]) => !name.startsWith(":")), ...(body && { body }) };
          const answer = await mock.fetch(new Request(`http://localhost${incoming.url}`, init));
          outgoing.writeHead(answer.status, Object.fromEntries(answer.headers));
          outgoing.end(Buffer.from(await answer.arrayBuffer()));
        });
      });
    },
  };
}

async function read(incoming: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of incoming) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

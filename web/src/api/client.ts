/** The one way to the array: a client whose paths and bodies are typed by its OpenAPI description. */
import createClient from "openapi-fetch";
import type { paths, SchemaProblem as Problem } from "./schema";
import { session } from "./session";

/** Lists are asked for whole, never by `fields`, so the partial form of an answer is left out of its types. */
export const api = createClient<paths, "application/json">({ baseUrl: location.origin, fetch: (request) => globalThis.fetch(request) });

api.use({
  onRequest({ request }) {
    const token = session.token();
    if (token) request.headers.set("authorization", `Bearer ${token}`);
    return request;
  },
  onResponse({ request, response }) {
    if (response.status === 401 && !request.url.endsWith("/session")) session.ended();
  },
});

/** What the array (or the way to it) answered instead of what was asked for. Its message says what to do. */
export class Refusal extends Error {
  constructor(
    readonly title: string,
    readonly detail: string,
    readonly status: number,
    readonly kind: string,
  ) {
    super(detail);
    this.name = "Refusal";
  }

  static of(error: unknown): Refusal {
    if (error instanceof Refusal) return error;
    if (isProblem(error)) return new Refusal(error.title, error.detail, error.status, error.kind);
    if (error instanceof TypeError) {
      const detail = "Check that ashlard runs and that this machine reaches it. The page goes on by itself.";
      return new Refusal("The array can't be reached", detail, 0, "unreachable");
    }
    const detail = error instanceof Error ? error.message : "The answer was of an unknown kind.";
    return new Refusal("Something went wrong", detail, 0, "failed");
  }
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "detail" in value && "title" in value && "status" in value;
}

/** The body of an answer; throws a {@link Refusal} when there is none. */
export async function answer<R extends { data?: unknown; error?: unknown; response: Response }>(
  call: Promise<R>,
): Promise<NonNullable<R["data"]>> {
  let result: R;
  try {
    result = await call;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw Refusal.of(error);
  }
  if (result.response.ok) return result.data as NonNullable<R["data"]>;
  throw Refusal.of(result.error ?? new Error(`The array answered ${result.response.status}.`));
}

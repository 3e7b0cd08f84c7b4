/** The one way to the array: a client whose paths and bodies are typed by its OpenAPI description. */
import createClient from "openapi-fetch";
import { Refusal } from "./refusal";
import { sent } from "./route";
import type { paths } from "./schema";
import { session } from "./session";

/** Lists are asked for whole, never by `fields`, so the partial form of an answer is left out of its types. */
export const api = createClient<paths, "application/json">({ baseUrl: location.origin, fetch: sent });

api.use({
  onRequest({ request }) {
    const token = session.token();
    if (token) request.headers.set("authorization", `Bearer ${token}`);
    return request;
  },
  async onResponse({ request, response }) {
    if (response.status === 503) {
      const problem = Refusal.of(await response.clone().json().catch(() => undefined));
      if (problem.kind === "standby") session.elsewhere(problem);
    }
    if (response.status === 401 && !request.url.endsWith("/session")) session.ended();
  },
});

/** The body of the answer to a creation. What exists already with equal content is an answer for programs: a person means another one. */
export async function created<R extends { data?: unknown; error?: unknown; response: Response }>(call: Promise<R>): Promise<NonNullable<R["data"]>> {
  let status = 0;
  const made = await answer(
    call.then((result) => {
      status = result.response.status;
      return result;
    }),
  );
  if (status === 200) throw new Refusal("Conflict", "It exists already: choose another name.", 409, "conflict");
  return made;
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

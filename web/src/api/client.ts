/** The client of the array's API; the OpenAPI description types its paths and bodies. */
import createClient from "openapi-fetch";
import { Refusal } from "./refusal";
import { sent } from "./route";
import type { paths } from "./schema";
import { session } from "./session";

/** The pages request complete objects, never `fields`, so the types leave out the partial form of an answer. */
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

/**
 * The body of the answer to a creation. The API answers an equal existing object as a success, for programs; the page
 * refuses it, because a person means a new object.
 */
export async function created<R extends { data?: unknown; error?: unknown; response: Response }>(call: Promise<R>): Promise<NonNullable<R["data"]>> {
  let status = 0;
  const made = await answer(
    call.then((result) => {
      status = result.response.status;
      return result;
    }),
  );
  if (status === 200) throw new Refusal("Conflict", "An object with this name exists: choose another name.", 409, "conflict");
  return made;
}

/** The body of an answer; throws a {@link Refusal} for an error. */
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

/**
 * The logged-in user: by a session, whose cookie no script can read, or by a token, which ends with the browser's tab.
 */
import { useSyncExternalStore } from "react";
import { Refusal } from "./refusal";
import type { SchemaArrival as Arrival, SchemaDeparture as Departure, SchemaRole as Role, SchemaSession as Session, SchemaSignIns as SignIns } from "./schema";

const KEY = "ashlar-token";
const PATH = "/api/v1/session";
/** The page to which a directory sends the browser back, and the endpoint that takes the directory's answer. */
const SIGN_IN = "/sign-in";
const SIGN_IN_PATH = "/api/v1/sign-in";
/** Milliseconds without an answer after which a loading page reports that the array is not responding. */
const SILENT_MS = 1_500;
/** Milliseconds until the next request to an unreachable array. */
const AGAIN = 2_000;

/** The cause of a session's end: the array, inactivity, or the user. */
export type Reason = "ended" | "idle" | "left";
export type SessionState =
  | { at: "asking"; problem?: Refusal }
  | { at: "out"; user: string; reason?: Reason; problem?: Refusal }
  | { at: "in"; user: string; role: Role; byToken: boolean };

let state: SessionState = { at: "asking" };
const listeners = new Set<() => void>();

function become(next: SessionState) {
  state = next;
  for (const listener of listeners) listener();
}

const token = () => sessionStorage.getItem(KEY);

/**
 * The token of a link such as `https://array/#token=…`, which the array prints. The function removes the token from the
 * address at once.
 */
function adopt() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  sessionStorage.setItem(KEY, given);
  history.replaceState(null, "", location.pathname + location.search);
}

/** The directory's answer in the address. The function removes it from the address at once. */
function arrival(): Arrival | Refusal | undefined {
  if (location.pathname !== SIGN_IN) return undefined;
  const given = new URLSearchParams(location.search);
  history.replaceState(null, "", "/");
  const [state, code, iss, error] = ["state", "code", "iss", "error"].map((name) => given.get(name));
  if (state && code) return { state, code, ...(iss && { iss }) };
  // Anybody can write such an address, so the page shows only an error code of the standard.
  const why = error && /^[a-z_]{1,40}$/.test(error) ? ` (${error})` : "";
  return new Refusal("You are not signed in", `The identity provider did not authenticate you${why}. Try again, or sign in as a local user.`, 0, "refused");
}

async function arrive(brought: Arrival | Refusal) {
  try {
    if (brought instanceof Refusal) throw brought;
    sessionStorage.removeItem(KEY);
    enter(await request("POST", null, brought, SIGN_IN_PATH), false);
  } catch (error) {
    become({ at: "out", user: "", problem: Refusal.of(error) });
  }
}

async function request<Answer = Session>(method: string, bearer: string | null, body?: unknown, path = PATH): Promise<Answer> {
  const headers = { ...(bearer && { authorization: `Bearer ${bearer}` }), ...(body !== undefined && { "content-type": "application/json" }) };
  let response: Response;
  try {
    response = await fetch(path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
  } catch (error) {
    throw Refusal.of(error);
  }
  if (!response.ok) throw Refusal.of(await response.json().catch(() => new Error(`The array answered ${response.status}.`)));
  return (response.status === 204 ? undefined : await response.json()) as Answer;
}

function enter({ user, role }: Session, byToken: boolean) {
  become({ at: "in", user, role, byToken });
}

function out(reason?: Reason) {
  sessionStorage.removeItem(KEY);
  become({ at: "out", user: state.at === "asking" ? "" : state.user, ...(reason && { reason }) });
}

export const session = {
  token,

  /** Fetches the current session; retries until the array answers. */
  ask: async (): Promise<void> => {
    adopt();
    const brought = arrival();
    if (brought) return arrive(brought);
    const silent = setTimeout(() => state.at === "asking" && become({ at: "asking", problem: Refusal.silent() }), SILENT_MS);
    try {
      enter(await request("GET", token()), token() !== null);
    } catch (error) {
      const problem = Refusal.of(error);
      if (problem.status === 401 || problem.status === 403) out(token() ? "ended" : undefined);
      else if (problem.kind === "standby") session.elsewhere(problem, true);
      else if (state.at !== "in") {
        become({ at: "asking", problem });
        setTimeout(() => void session.ask(), AGAIN);
      }
    } finally {
      clearTimeout(silent);
    }
  },

  /**
   * Reports that another controller serves the array, and repeats the request until this one does. `asked`: no request
   * is under way.
   */
  elsewhere: (problem: Refusal, asked = state.at !== "asking"): void => {
    become({ at: "asking", problem });
    if (asked) setTimeout(() => void session.ask(), AGAIN);
  },

  /** Begins a session; throws a {@link Refusal} if the array refuses. */
  begin: async (user: string, password: string): Promise<void> => {
    const begun = await request("POST", null, { user, password });
    sessionStorage.removeItem(KEY);
    enter(begun, false);
  },

  /** Names of the directories with a log-in page of their own. */
  directories: async (): Promise<string[]> => (await request<SignIns>("GET", null, undefined, SIGN_IN_PATH)).items.map((it) => it.directory),

  /** The URL of a directory's log-in page; throws a {@link Refusal} if the directory can't be reached. */
  depart: async (directory: string): Promise<string> => (await request<Departure>("POST", null, undefined, `${SIGN_IN_PATH}/${encodeURIComponent(directory)}`)).url,

  /** Logs in with a token; throws a {@link Refusal} if the array refuses it. */
  useToken: async (secret: string): Promise<void> => {
    const found = await request("GET", secret);
    sessionStorage.setItem(KEY, secret);
    enter(found, true);
  },

  /** In the vSphere Client, the client's session is used, and the plug-in's server checks each request. */
  within: (user: string, role: Role) => enter({ user, role }, false),

  /** The array no longer accepts the session or token. */
  ended: () => {
    if (state.at === "in") out("ended");
  },

  leave: async (reason: Reason = "left"): Promise<void> => {
    // This request goes before another log-in, whose cookie it must not delete. An unreachable array ends the session
    // later.
    if (token() === null) await request("DELETE", null).catch(() => undefined);
    out(reason);
  },
};

export function useSession(): SessionState {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );
}

const ROLES: readonly Role[] = ["viewer", "operator", "admin"];

/** Whether the user has at least this role. The array decides; pages only leave out what it would refuse. */
export function useMay(role: Role): boolean {
  const now = useSession();
  return now.at === "in" && ROLES.indexOf(now.role) >= ROLES.indexOf(role);
}

/** Whether the user is from a directory: the array does not have the password of such a user. */
export function isGuest(user: string): boolean {
  return user.includes("/");
}

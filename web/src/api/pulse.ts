/**
 * The check whether the array still answers. Requests to a hung daemon stay open without an error, so the page requests
 * a sign of life.
 */
import { useEffect, useSyncExternalStore } from "react";
import { session } from "./session";

/** Milliseconds between one answer and the next request. */
const ASK_MS = 1_000;
/** Milliseconds without a sign of life after which the array counts as not responding: with {@link CHECK_MS} below three seconds. */
export const SILENT_MS = 2_500;
const CHECK_MS = 250;
/** Milliseconds until the page abandons a request: the connection may be dead while the array is back. */
const GIVE_UP_MS = 10_000;

/** `silent`: the array takes connections but does not answer. `unreachable`: the page can't connect. */
export type Pulse = "answers" | "silent" | "unreachable";

let pulse: Pulse = "answers";
/** Time of the last sign of life, by the page's clock. */
let last = 0;
/** Time of the last answer before the silence, as text. */
let since = Date.now();
const listeners = new Set<() => void>();

function become(next: Pulse) {
  if (next === pulse) return;
  pulse = next;
  for (const listener of listeners) listener();
}

/** The array sent something. */
export function alive(): void {
  last = performance.now();
  since = Date.now();
  become("answers");
}

/** Evaluates the time since the last sign of life. */
export function check(now: number): void {
  if (pulse === "answers" && now - last > SILENT_MS) become("silent");
}

async function ask(signal: AbortSignal): Promise<void> {
  const token = session.token();
  const given = AbortSignal.timeout(GIVE_UP_MS);
  try {
    // Any answer is a sign of life.
    await fetch("/api/v1/status", { cache: "no-store", signal: AbortSignal.any([signal, given]), headers: token ? { authorization: `Bearer ${token}` } : {} });
    alive();
  } catch (error) {
    if (!signal.aborted && error instanceof TypeError) become("unreachable");
  }
}

async function watch(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await ask(signal);
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
  }
}

/** Watches the array while the page is visible: timers of hidden pages are too slow for the check. */
export function useHeartbeat(): void {
  useEffect(() => {
    let watching: AbortController | undefined;
    let timer: ReturnType<typeof setInterval> | undefined;
    const stop = () => {
      watching?.abort();
      clearInterval(timer);
    };
    const update = () => {
      stop();
      if (document.visibilityState === "hidden") return;
      last = performance.now();
      watching = new AbortController();
      timer = setInterval(() => check(performance.now()), CHECK_MS);
      void watch(watching.signal);
    };
    update();
    document.addEventListener("visibilitychange", update);
    return () => {
      document.removeEventListener("visibilitychange", update);
      stop();
    };
  }, []);
}

export function usePulse(): Pulse {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => pulse,
  );
}

/** Time of the array's last answer, in milliseconds since 1970. */
export const lastAnswer = () => since;

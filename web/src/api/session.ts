/** Who is signed in. The token lives as long as the browser's tab, and is sent to the array alone. */
import { useSyncExternalStore } from "react";

const KEY = "ashlar-token";

export type SessionState = { signedIn: boolean; ended: boolean };

let state: SessionState = { signedIn: adopt(), ended: false };
const listeners = new Set<() => void>();

/** A link such as `https://array/#token=…`, as the array prints it, signs in; the token leaves the address at once. */
function adopt(): boolean {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(KEY) !== null;
}

function become(next: SessionState) {
  state = next;
  for (const listener of listeners) listener();
}

export const session = {
  token: () => sessionStorage.getItem(KEY),
  begin: (token: string) => {
    sessionStorage.setItem(KEY, token);
    become({ signedIn: true, ended: false });
  },
  /** The array no longer takes what we sent. */
  ended: () => {
    sessionStorage.removeItem(KEY);
    become({ signedIn: false, ended: state.signedIn || state.ended });
  },
  leave: () => {
    sessionStorage.removeItem(KEY);
    become({ signedIn: false, ended: false });
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

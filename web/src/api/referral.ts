/** From a standby to the controller that serves the array. */

/** How long a standby is shown before the page goes to the home by itself, in milliseconds: long enough to read, and for controllers that do not agree yet. */
export const REFERRAL_MS = 3000;

/** What tests replace. */
export const browser = { go: (url: string): void => location.replace(url) };

/** This page at the home; none if the way there is protected less than the way here. Nothing of this session goes along: the browser checks the home's certificate, and the operator signs in there. */
export function pageAt(home: string): string | undefined {
  let url: URL;
  try {
    url = new URL(location.pathname + location.search, home);
  } catch {
    return undefined;
  }
  return url.protocol === "https:" || url.protocol === location.protocol ? url.href : undefined;
}

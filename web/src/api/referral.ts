/** The referral from a standby to the controller that serves the array. */

/**
 * Time in milliseconds before the page of a standby loads the page of the home: enough to read the text, and for
 * controllers that do not agree yet.
 */
export const REFERRAL_MS = 3000;

/** The browser's functions that tests replace. */
export const browser = { go: (url: string): void => location.replace(url) };

/**
 * The URL of this page at the home; none if it is less protected than this one. The URL carries nothing of this
 * session: the browser checks the home's certificate, and the operator logs in there.
 */
export function pageAt(home: string): string | undefined {
  let url: URL;
  try {
    url = new URL(location.pathname + location.search, home);
  } catch {
    return undefined;
  }
  return url.protocol === "https:" || url.protocol === location.protocol ? url.href : undefined;
}

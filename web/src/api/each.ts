/** One change for several objects: a bounded number of requests at once, and one result for all. */
import { Refusal } from "./refusal";

/** Largest number of requests at once. */
const AT_ONCE = 4;
/** Largest number of failures that are shown with their reason. */
const SHOWN = 3;

/**
 * Runs a change for each item and returns the number of items. After the last change, throws a {@link Refusal} with the
 * failed items and their reasons.
 */
export async function each<T>(items: readonly T[], nameOf: (item: T) => string, run: (item: T) => Promise<unknown>): Promise<number> {
  const failed: string[] = [];
  let next = 0;
  const worker = async () => {
    for (let item = items[next++]; item !== undefined; item = items[next++]) {
      try {
        await run(item);
      } catch (error) {
        failed.push(`${nameOf(item)}: ${Refusal.of(error).detail}`);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  if (failed.length > 0) {
    const more = failed.length > SHOWN ? `; and ${failed.length - SHOWN} more` : "";
    throw new Refusal(`${failed.length} of ${items.length} failed`, `${failed.slice(0, SHOWN).join("; ")}${more}`, 409, "failed");
  }
  return items.length;
}

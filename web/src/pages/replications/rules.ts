/** Rules that keep older points as text, one per line: `daily=7`. */
import type { SchemaRule as Rule } from "../../api/schema";

/** The rules of a text; `undefined` if a line is not a rule. The array checks the period. */
export function parseRules(text: string): Rule[] | undefined {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const found = lines.map((line): Rule | undefined => {
    const [, when, keep] = /^(.*\S)\s*=\s*(\d{1,4})\s*$/.exec(line.trim()) ?? [];
    return when && keep ? { when, keep: Number(keep) } : undefined;
  });
  return found.some((it) => it === undefined) ? undefined : (found as Rule[]);
}

export const ruleText = ({ when, keep }: Rule): string => `${when}=${keep}`;

import type { SchemaRule as Rule } from "../../api/schema";
import { whenText } from "../../cron";

/** How many snapshots are retained of which times, in words; the title has the rules as they are written. */
export function Rules({ rules }: { rules: Rule[] }) {
  return <span title={rules.map((rule) => `${rule.keep} ${rule.when}`).join(", ")}>{rules.map((rule) => `${rule.keep} ${whenText(rule.when)}`).join("; ")}</span>;
}

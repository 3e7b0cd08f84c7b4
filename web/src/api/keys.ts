/** The first parts of query keys: the unit of invalidation. */
import type { SchemaTopic as Topic } from "./schema";

/** A topic of the event stream, or data with events of its own. */
export type Key = Exclude<Topic, "connections"> | "alerts" | "array" | "audit" | "events" | "jobs" | "performance" | "capacity" | "replication-history" | "protection" | "store";

/** The key of a query. */
export const key = <Rest extends readonly unknown[]>(first: Key, ...rest: Rest): readonly [Key, ...Rest] => [first, ...rest];

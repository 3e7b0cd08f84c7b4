/** The first parts of the keys of queries: what may be asked for again. */
import type { SchemaTopic as Topic } from "./schema";

/** A topic of the event stream that pages show, or what is told in another way than by topics. */
export type Key = Exclude<Topic, "connections"> | "alerts" | "array" | "audit" | "events" | "jobs" | "performance" | "capacity" | "protection";

/** The key of a query; of another name than these nothing would tell. */
export const key = <Rest extends readonly unknown[]>(first: Key, ...rest: Rest): readonly [Key, ...Rest] => [first, ...rest];

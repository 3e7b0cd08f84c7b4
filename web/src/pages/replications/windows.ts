/** Weekly windows as text, one per line: `mon-fri 08:00-18:00`. */
import type { SchemaBandwidthWindow as BandwidthWindow, SchemaWeekday as Weekday, SchemaWeeklyWindow as WeeklyWindow } from "../../api/schema";
import { exactBytes, parseBytes } from "../../format";

const DAYS: Weekday[] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

const TIME = /^([01]?\d|2[0-3]):[0-5]\d$/;

function parseDays(text: string): Weekday[] | undefined {
  if (text === "daily") return DAYS;
  const found = new Set<Weekday>();
  for (const part of text.split(",")) {
    const [first, last = first, ...rest] = part.split("-");
    const [from, to] = [first, last].map((day) => DAYS.findIndex((known) => known === day));
    if (from === undefined || to === undefined || from < 0 || to < 0 || rest.length > 0) return undefined;
    for (let at = from; ; at = (at + 1) % 7) {
      const day = DAYS[at];
      if (day) found.add(day);
      if (at === to) break;
    }
  }
  return [...found];
}

function parseLine(line: string): WeeklyWindow | undefined {
  const [named = "", times = "", ...rest] = line.trim().toLowerCase().split(/\s+/);
  const [from = "", to = "", ...more] = times.split("-");
  const days = parseDays(named);
  if (!days || rest.length > 0 || more.length > 0 || !TIME.test(from) || !TIME.test(to)) return undefined;
  return { days, from, to };
}

const lines = (text: string) => text.split("\n").filter((line) => line.trim() !== "");

/** The windows of a text; `undefined` if a line is not a window. */
export function parseWindows(text: string): WeeklyWindow[] | undefined {
  const found = lines(text).map(parseLine);
  return found.some((it) => it === undefined) ? undefined : (found as WeeklyWindow[]);
}

/** The windows with limits of a text; `undefined` if a line is not one. */
export function parseLimits(text: string): BandwidthWindow[] | undefined {
  const found = lines(text).map((line): BandwidthWindow | undefined => {
    const [when = "", limit = "", ...rest] = line.split("=");
    const [window, none] = [parseLine(when), limit.trim().toLowerCase() === "none"];
    const most = parseBytes(limit);
    if (!window || rest.length > 0 || (!none && most === undefined)) return undefined;
    return { ...window, limit: none ? null : (most ?? null) };
  });
  return found.some((it) => it === undefined) ? undefined : (found as BandwidthWindow[]);
}

/** Days as text; consecutive days become ranges. */
function daysText(days: Weekday[]): string {
  if (DAYS.every((day) => days.includes(day))) return "daily";
  const parts: string[] = [];
  for (let at = 0; at < 7; at++) {
    const first = DAYS[at];
    if (!first || !days.includes(first)) continue;
    let last: Weekday = first;
    for (let next = DAYS[at + 1]; next && days.includes(next); next = DAYS[at + 1]) {
      last = next;
      at++;
    }
    parts.push(first === last ? first : `${first}-${last}`);
  }
  return parts.join(",");
}

export const windowText = ({ days, from, to }: WeeklyWindow): string => `${daysText(days)} ${from}-${to}`;

export const limitText = (it: BandwidthWindow): string => `${windowText(it)} = ${typeof it.limit === "number" ? exactBytes(it.limit) : "none"}`;

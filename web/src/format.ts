/** Numbers as people read them. Sizes are binary (GiB), rates too. Sizes are rounded down, ratios to the nearest. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;

/** `1.5 TiB`: at most four digits, no trailing zeros. */
export function bytes(value: number): string {
  let unit = 0;
  let scaled = value;
  while (scaled >= 1024 && unit < UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${digits(scaled)} ${UNITS[unit] ?? "B"}`;
}

/** Three significant digits below 100, whole above; rounded down. */
function digits(value: number): string {
  const places = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  const factor = 10 ** places;
  return (Math.floor(value * factor + (places > 0 ? 1e-9 : 0)) / factor).toLocaleString("en", { maximumFractionDigits: places });
}

/** `3.2 : 1`, or a dash while nothing is stored. */
export function ratio(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return `${value >= 100 ? Math.round(value).toLocaleString("en") : (Math.round(value * 10) / 10).toFixed(1)} : 1`;
}

/** A share of one: `12.3 %`, `< 0.1 %`. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${value >= 10 ? Math.round(value) : Math.round(value * 10) / 10} %`;
}

/** `3 d 4 h`, `12 min`: the two largest parts. */
export function duration(seconds: number): string {
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3_600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [Math.floor(seconds) % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

const SECOND = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** A time in the reader's zone, such as `21 Nov 2026, 12:30`; with seconds on request. */
export function moment(time: string | number, seconds = false): string {
  return (seconds ? SECOND : MOMENT).format(new Date(time));
}

/** The time this many milliseconds from now, to the second, in the API's format. */
export function utcFromNow(millis: number): string {
  return new Date(Date.now() + millis).toISOString().replace(/\.\d+Z$/, "Z");
}

/** A duration in microseconds as text: `850 µs`, `1.25 ms`, `2 s`. */
export function latency(micros: number): string {
  if (micros < 1_000) return `${digits(micros)} µs`;
  return micros < 1_000_000 ? `${digits(micros / 1_000)} ms` : `${digits(micros / 1_000_000)} s`;
}

/** `1,234`. */
export function count(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: value >= 100 || Number.isInteger(value) ? 0 : 1 });
}

/** `1 volume`, `3 volumes`. */
export function plural(value: number, noun: string, many = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : many}`;
}

/** The name of a connection's host or host group. */
export function accessorName(connection: { host?: string | null; host_group?: string | null }): string {
  return connection.host_group ? `group ${connection.host_group}` : (connection.host ?? "");
}

/** Bytes of each unit of sizes; a single letter is the binary unit. The command line has the same table. */
const SIZES: Record<string, number> = { b: 1 };
"kmgtpe".split("").forEach((letter, index) => {
  SIZES[`${letter}b`] = 1000 ** (index + 1);
  SIZES[`${letter}ib`] = 1024 ** (index + 1);
  SIZES[letter] = 1024 ** (index + 1);
});

/**
 * Bytes in `1.5 TiB` (1024 each), `1.5 TB` (1000 each), `10g` (as GiB), `512 B`; undefined if the text is not a size or
 * has no unit.
 */
export function parseBytes(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*$/i.exec(text);
  const unit = SIZES[match?.[2]?.toLowerCase() ?? ""];
  if (!match?.[1] || unit === undefined) return undefined;
  const value = Math.round(Number(match[1]) * unit);
  // Above 2^53 bytes not every number can be said, but every number of blocks.
  return value < 2 ** 63 ? value : undefined;
}

/** The size in the largest unit without a rest, for fields that are saved again: {@link bytes} rounds. */
export function exactBytes(value: number): string {
  if (value === 0) return "0 B";
  const units = Object.entries(SIZES).filter(([unit]) => unit.length > 1 && value % (SIZES[unit] ?? 1) === 0);
  const [unit, size] = units.reduce<[string, number]>((largest, it) => (it[1] > largest[1] ? it : largest), ["b", 1]);
  const name = unit === "b" ? "B" : unit.toUpperCase().replace("IB", "iB");
  return `${value / size} ${name === "KB" ? "kB" : name}`;
}

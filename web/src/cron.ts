/** Times of snapshot rules in words. */

const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/** `a`, `a and b`, `a, b and c`. */
const listed = (items: string[]) => (items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`);

/** The numbers, ranges and lists of a field in words; undefined of other forms. */
function values(field: string, word: (value: number) => string | undefined): string | undefined {
  const parts = field.split(",").map((part) => {
    const [, from, to] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    const words = [from, to].flatMap((it) => (it === undefined ? [] : [word(Number(it))]));
    return words.length === 0 || words.includes(undefined) ? undefined : words.join(" to ");
  });
  return parts.includes(undefined) ? undefined : listed(parts as string[]);
}

const clock = (hour: number, minute: number) => `${`${hour}`.padStart(2, "0")}:${`${minute}`.padStart(2, "0")}`;

/** The minutes and hours of a day. */
function times(minute: string, hour: string): string | undefined {
  const [, minutes] = /^\*\/(\d+)$/.exec(minute) ?? [];
  if (minutes && hour === "*") return `every ${minutes} minutes`;
  if (minute === "*" && hour === "*") return "every minute";
  if (!/^\d+$/.test(minute)) return undefined;
  const [, hours] = /^\*\/(\d+)$/.exec(hour) ?? [];
  if (hour === "*" || hours) return `${hours ? `every ${hours} hours` : "hourly"}${minute === "0" ? "" : ` at minute ${minute}`}`;
  const at = values(hour, (value) => (value < 24 ? clock(value, Number(minute)) : undefined));
  if (at === undefined) return undefined;
  return hour.includes("-") ? `hourly, ${at}` : `at ${at}`;
}

/** `0 22 * * 1-5` is `at 22:00 on Monday to Friday`; what is no cron expression, or one with forms of its own, stays as it is. */
export function whenText(when: string): string {
  const fields = when.trim().split(/\s+/);
  const [minute, hour, day, month, weekday] = fields;
  if (fields.length !== 5 || !minute || !hour || !day || !month || !weekday) return when;
  const at = times(minute, hour);
  const inMonths = month === "*" ? "" : values(month, (value) => MONTHS[value - 1]);
  const onDays = day === "*" ? "" : values(day, (value) => (value >= 1 && value <= 31 ? `${value}` : undefined));
  const onWeekdays = weekday === "*" ? "" : values(weekday, (value) => DAYS[value]);
  if (at === undefined || inMonths === undefined || onDays === undefined || onWeekdays === undefined) return when;
  const days = [onDays && `day ${onDays} of the month`, onWeekdays].filter(Boolean).join(" or ");
  return [at, days && `on ${days}`, inMonths && `in ${inMonths}`].filter(Boolean).join(" ");
}

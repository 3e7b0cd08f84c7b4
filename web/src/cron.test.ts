import { expect, test } from "vitest";
import { whenText } from "./cron";

test("times of rules are in words, and what is not understood stays as it is", () => {
  const said: Record<string, string> = {
    hourly: "hourly",
    "0 22 * * 1-5": "at 22:00 on Monday to Friday",
    "30 6,18 * * *": "at 06:30 and 18:30",
    "*/15 * * * *": "every 15 minutes",
    "0 */4 * * *": "every 4 hours",
    "5 * * * *": "hourly at minute 5",
    "0 8-18 * * 1,3,5": "hourly, 08:00 to 18:00 on Monday, Wednesday and Friday",
    "0 3 1 * *": "at 03:00 on day 1 of the month",
    "0 3 1 1,7 0": "at 03:00 on day 1 of the month or Sunday in January and July",
    "0 25 * * *": "0 25 * * *",
    "0-10/2 3 * * *": "0-10/2 3 * * *",
    "0 3 * * 9": "0 3 * * 9",
    "": "",
  };
  for (const [when, words] of Object.entries(said)) expect(whenText(when), when).toBe(words);
});

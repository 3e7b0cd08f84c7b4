import { Autocomplete } from "@mantine/core";
import type { AutocompleteProps } from "@mantine/core";

/** The time zone of this browser. */
export const browserZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** The time zones that the browser knows; the array knows them all. */
const zones = () => ["UTC", ...Intl.supportedValuesOf("timeZone").filter((it) => it !== "UTC")];

/** A name of the IANA database of time zones. */
export function TimeZoneInput(props: AutocompleteProps) {
  return <Autocomplete label="Time zone" placeholder="Europe/Berlin" data={zones()} limit={20} autoComplete="off" spellCheck={false} required {...props} />;
}

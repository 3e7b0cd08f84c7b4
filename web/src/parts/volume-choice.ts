/** Choices of volumes. The array searches the names, so a choice fetches no complete list. */
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { CHOICES, volumeNames } from "../api/queries";

/** Milliseconds from the last key to the request. */
const TYPED_MS = 200;

/** The names of a choice with the chosen ones, the typed text, and the properties of the input for its search. */
export function useVolumeChoice(opened: boolean, chosen: (string | null | undefined)[] = []) {
  const [text, setText] = useState("");
  // An input with a choice shows the choice as its text.
  const typed = chosen.includes(text) ? "" : text;
  const [search] = useDebouncedValue(typed.trim(), TYPED_MS);
  const { data } = useQuery({ ...volumeNames(search), enabled: opened });
  const names = data && [...new Set([...chosen.filter((it): it is string => !!it), ...data])];
  return { names, input: { searchable: true, onSearchChange: setText, limit: CHOICES } };
}

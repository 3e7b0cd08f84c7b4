/** Choices of volumes, of which the array searches the names: a choice fetches no whole list. */
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { CHOICES, volumeNames } from "../api/queries";

/** Milliseconds after the last key until the array is asked. */
const TYPED_MS = 200;

/** Names to choose from, those that are chosen included, the text that was typed, and what the input needs for its search. */
export function useVolumeChoice(opened: boolean, chosen: (string | null | undefined)[] = []) {
  const [text, setText] = useState("");
  // An input that has a choice shows it as its text.
  const typed = chosen.includes(text) ? "" : text;
  const [search] = useDebouncedValue(typed.trim(), TYPED_MS);
  const { data } = useQuery({ ...volumeNames(search), enabled: opened });
  const names = data && [...new Set([...chosen.filter((it): it is string => !!it), ...data])];
  return { names, input: { searchable: true, onSearchChange: setText, limit: CHOICES } };
}

/** Choices of volumes. The array searches the names, so a choice fetches no complete list. */
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { CHOICES, volumeNames } from "../api/queries";

/** Milliseconds from the last key to the request. */
const TYPED_MS = 200;

/**
 * Names to choose from, including the chosen ones, and what the input needs for its search. `other` is the label of a choice
 * that is no volume.
 */
export function useVolumeChoice(opened: boolean, chosen: (string | null | undefined)[] = [], other?: string) {
  const [text, setText] = useState("");
  // An input that has a choice shows it as its text.
  const typed = text === other || chosen.includes(text) ? "" : text;
  const [search] = useDebouncedValue(typed.trim(), TYPED_MS);
  const { data } = useQuery({ ...volumeNames(search), enabled: opened });
  const names = data && [...new Set([...chosen.filter((it): it is string => !!it), ...data])];
  return { names, input: { searchable: true, onSearchChange: setText, limit: CHOICES } };
}

import { useState } from "react";
import { useLocation, useSearch } from "wouter";

/** State of a dialog that a button opens, or a link to the page with `?word`. */
export function useOpened(word: string): { opened: boolean; open: () => void; close: () => void } {
  const [location, go] = useLocation();
  const linked = new URLSearchParams(useSearch()).has(word);
  const [opened, setOpened] = useState(false);
  return {
    opened: opened || linked,
    open: () => setOpened(true),
    close: () => {
      setOpened(false);
      if (linked) go(location, { replace: true });
    },
  };
}

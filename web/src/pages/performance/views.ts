/** Saved views of the analysis: addresses with a name, kept in the browser. */
import { useState } from "react";

export type View = { name: string; search: string };

const KEY = "ashlar-views";
/** Largest number of saved views. */
const MAX_VIEWS = 50;

/** Views in a stored text, without damaged ones. */
export function storedViews(text: string | null): View[] {
  try {
    const value: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(value)) return [];
    const isView = (it: unknown): it is View => typeof it === "object" && it !== null && typeof (it as View).name === "string" && typeof (it as View).search === "string";
    return value.filter(isView).slice(0, MAX_VIEWS);
  } catch {
    return [];
  }
}

/** The views with one more, sorted by name. It replaces a view of the same name. */
export function withView(views: readonly View[], view: View): View[] {
  return [...views.filter((it) => it.name !== view.name), view].sort((a, b) => a.name.localeCompare(b.name)).slice(0, MAX_VIEWS);
}

/** The saved views, and their changes. */
export function useViews() {
  const [views, setViews] = useState<View[]>(() => {
    try {
      return storedViews(localStorage.getItem(KEY));
    } catch {
      return [];
    }
  });
  const become = (next: View[]) => {
    setViews(next);
    try {
      localStorage.setItem(KEY, JSON.stringify(next));
    } catch {
      // Storage is switched off: the views last as long as the page.
    }
  };
  return {
    views,
    save: (view: View) => become(withView(views, view)),
    remove: (name: string) => become(views.filter((it) => it.name !== name)),
  };
}

/** The shown columns of a list, by the user's choice, which the browser keeps. */
import { ActionIcon, Button, Checkbox, Popover, Stack, Tooltip } from "@mantine/core";
import { Columns3 } from "lucide-react";
import { useState } from "react";

type Named = { name: string; optional?: boolean };
export type Choice<Column> = { shown: Column[]; toggle: (name: string) => void; reset: () => void };

const keyOf = (list: string) => `ashlar-columns-${list}`;

/** Choices that differ from the default, by name; none if the stored text is damaged. */
export function storedChoice(text: string | null): Record<string, boolean> {
  try {
    const value: unknown = JSON.parse(text ?? "{}");
    if (typeof value !== "object" || value === null) return {};
    return Object.fromEntries(Object.entries(value).filter((it): it is [string, boolean] => typeof it[1] === "boolean"));
  } catch {
    return {};
  }
}

function read(list: string): string | null {
  try {
    return localStorage.getItem(keyOf(list));
  } catch {
    return null;
  }
}

function write(list: string, choice: Record<string, boolean>): void {
  try {
    localStorage.setItem(keyOf(list), JSON.stringify(choice));
  } catch {
    // Storage is switched off: the choice lasts as long as the page.
  }
}

/** The columns to show. The first column links to the object and is always shown. */
export function useChosenColumns<Column extends Named>(list: string, columns: Column[], enabled: boolean): Choice<Column> {
  const [chosen, setChosen] = useState(() => (enabled ? storedChoice(read(list)) : {}));
  const become = (next: Record<string, boolean>) => {
    setChosen(next);
    write(list, next);
  };
  const isShown = (column: Column, index: number) => index === 0 || (chosen[column.name] ?? !column.optional);
  return {
    shown: columns.filter(isShown),
    toggle: (name) => {
      const index = columns.findIndex((it) => it.name === name);
      const column = columns[index];
      if (column) become({ ...chosen, [name]: !isShown(column, index) });
    },
    reset: () => become({}),
  };
}

export function ColumnChooser<Column extends Named>({ list, columns, choice }: { list: string; columns: Column[]; choice: Choice<Column> }) {
  const [opened, setOpened] = useState(false);
  const shown = new Set(choice.shown.map((it) => it.name));
  return (
    <Popover position="bottom-end" width={200} opened={opened} onChange={setOpened} trapFocus>
      <Popover.Target>
        <Tooltip label="Columns">
          <ActionIcon variant="default" size="lg" aria-label={`Columns of ${list.toLowerCase()}`} className="wide-only" onClick={() => setOpened(!opened)}>
            <Columns3 size={16} />
          </ActionIcon>
        </Tooltip>
      </Popover.Target>
      <Popover.Dropdown aria-label={`Columns of ${list.toLowerCase()}`}>
        <Stack gap={10}>
          {columns.slice(1).map(({ name }) => name && <Checkbox key={name} size="xs" label={name} checked={shown.has(name)} onChange={() => choice.toggle(name)} />)}
          <Button variant="subtle" size="compact-xs" onClick={choice.reset}>
            Default columns
          </Button>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

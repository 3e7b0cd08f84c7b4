/**
 * A list: sorted by a click on a column, searched by words, filtered by what rows belong to, shown a page at a time, so that
 * thousands stay fluid. Rows can be selected for an action, and columns chosen. A long list is sorted, searched, filtered and cut
 * by the array, which is asked for one page.
 */
import { Button, Checkbox, Group, Pagination, Select, Skeleton, Table, Text, TextInput } from "@mantine/core";
import { ArrowDown, ArrowUp, ChevronsUpDown, Search } from "lucide-react";
import { useMemo, useState, type ReactNode } from "react";
import { count, plural } from "../format";
import { ColumnChooser, useChosenColumns } from "./columns";

export type Column<Row> = {
  name: string;
  /** The content of the cell. */
  cell: (row: Row) => ReactNode;
  /** The sort key; without it the column can't be sorted. */
  key?: (row: Row) => string | number;
  /** The field by which the array sorts, in a list that the array pages. */
  sort?: string;
  /** The largest first, such as for times. */
  down?: boolean;
  /** The initial sort column; without one, the first column with a sort key. */
  first?: boolean;
  right?: boolean;
  /** Hidden on narrow screens; `"xl"`: also on tablets. */
  wide?: boolean | "xl";
  /** In a list of cards: on lines of its own, as running text. */
  main?: boolean;
  /** In a list with a choice of columns: hidden until chosen. */
  optional?: boolean;
};

/** A filter by a choice. In a list that the array pages, `choices` are fetched when the filter opens. */
export type Filter<Row> = { label: string; of: (row: Row) => string[]; choices?: string[]; onOpen?: () => void };

/** The shown rows: they contain every word and match each choice, sorted, of one page. */
export type Shown = { words: string; chosen: Record<string, string>; column: string; down: boolean; page: number };

/** A list that the array pages: the rows are of the shown page, or of the page before while the answer is pending. */
export type Remote = { total: number; shown: Shown; pending: boolean; onShow: (shown: Shown) => void };

/** Rows of a page. */
export const PAGE_ROWS = 50;

/** The initial view. */
export function firstShown<Row>(columns: Column<Row>[]): Shown {
  const column = columns.find((it) => it.first) ?? columns.find(isSortable);
  return { words: "", chosen: {}, column: column?.name ?? "", down: column?.down ?? false, page: 1 };
}

/** Whether only some rows of a list are shown. */
export const isNarrowed = ({ words, chosen }: Shown) => words.trim() !== "" || Object.values(chosen).some(Boolean);

const isSortable = <Row,>(column: Column<Row>) => Boolean(column.key ?? column.sort);

/** The actions on several rows at once. */
export type Selection<Row> = { may: boolean; actions: (rows: Row[], clear: () => void) => ReactNode };

type Props<Row> = {
  label: string;
  noun: string;
  /** The plural, unless it only adds an s. */
  many?: string;
  rows: Row[] | undefined;
  columns: Column<Row>[];
  id: (row: Row) => string;
  /** The text that a search reads; without it the table has no search. */
  text?: (row: Row) => string;
  empty: ReactNode;
  pageSize?: number;
  tools?: ReactNode;
  filters?: Filter<Row>[];
  selection?: Selection<Row>;
  /** Columns can be chosen; the choice is kept in this browser. */
  chooser?: boolean;
  remote?: Remote;
  /** On narrow screens each row is a card with all of its cells: for lists whose rows are sentences. */
  cards?: boolean;
};

/** The rows that contain every word, sorted. */
export function arrange<Row>(rows: Row[], words: string, text: ((row: Row) => string) | undefined, column: Column<Row> | undefined, down: boolean): Row[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = text && wanted.length > 0 ? rows.filter((row) => contains(text(row).toLowerCase(), wanted)) : rows;
  const key = column?.key;
  if (!key) return found;
  const sign = down ? -1 : 1;
  return [...found].sort((a, b) => sign * compare(key(a), key(b)));
}

/** The rows that match each choice. */
export function filtered<Row>(rows: Row[], filters: Filter<Row>[] | undefined, chosen: Record<string, string>): Row[] {
  const active = (filters ?? []).filter(({ label }) => chosen[label]);
  return active.length === 0 ? rows : rows.filter((row) => active.every(({ label, of }) => of(row).includes(chosen[label] ?? "")));
}

function contains(text: string, words: string[]): boolean {
  return words.every((word) => text.includes(word));
}

const NAMES = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function compare(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : NAMES.compare(String(a), String(b));
}

export function DataTable<Row>({ label, noun, many, rows, columns: all, id, text, empty, pageSize = PAGE_ROWS, tools, filters, selection, chooser = false, remote, cards = false }: Props<Row>) {
  const [own, setOwn] = useState(() => firstShown(all));
  const { words, chosen, column, down, page } = remote?.shown ?? own;
  const [selected, setSelected] = useState<ReadonlyMap<string, Row>>(new Map());
  const show = (change: Partial<Shown>) => {
    const next = { words, chosen, column, down, page, ...change };
    (remote?.onShow ?? setOwn)(next);
    // Rows that a search or a filter hides are selected no longer; of a list that the array cuts, it is not known which.
    if (next.words === words && next.chosen === chosen) return;
    const left = remote ? [] : arrange(filtered(rows ?? [], filters, next.chosen), next.words, text, undefined, false).map(id);
    setSelected((before) => new Map([...before].filter(([key]) => left.includes(key))));
  };
  const choice = useChosenColumns(label, all, chooser);
  const columns = choice.shown;
  const sorting = columns.find(({ name }) => name === column) ?? columns.find(isSortable);
  const isCut = remote !== undefined;
  const found = useMemo(
    () => (isCut || !rows ? rows : arrange(filtered(rows, filters, chosen), words, text, sorting, down)),
    [isCut, rows, words, text, sorting, down, filters, chosen],
  );
  if (rows?.length === 0 && !(remote && (isNarrowed(remote.shown) || remote.pending || remote.total > 0))) {
    return (
      <>
        {tools && <Group p="sm">{tools}</Group>}
        {empty}
      </>
    );
  }
  const selects = selection?.may === true;
  const known = new Map((rows ?? []).map((row) => [id(row), row]));
  // In a list that the array pages, rows of other pages stay selected.
  const marked = selects ? [...selected].flatMap(([key, row]) => known.get(key) ?? (remote ? row : [])) : [];
  const mark = (keys: string[], on: boolean) => {
    const next = new Map([...selected].filter(([key]) => !keys.includes(key)));
    for (const key of on ? keys : []) {
      const row = known.get(key);
      if (row !== undefined) next.set(key, row);
    }
    setSelected(next);
  };
  const clear = () => setSelected(new Map());
  const total = remote ? remote.total : (found?.length ?? 0);
  const pages = Math.max(1, Math.ceil(total / pageSize));
  const current = Math.min(page, pages);
  const shown = remote ? rows : found?.slice((current - 1) * pageSize, current * pageSize);
  return (
    <>
      {text && (
        <Group p="sm" gap="sm" justify="space-between">
          <Group gap="sm" style={{ flex: 1 }}>
            <TextInput
              aria-label={`Search ${label.toLowerCase()}`}
              placeholder="Search"
              type="search"
              leftSection={<Search size={15} aria-hidden />}
              value={words}
              onChange={(event) => show({ words: event.currentTarget.value, page: 1 })}
              style={{ flex: "1 1 160px", maxWidth: 320 }}
            />
            {filters?.map((filter) => (
              <FilterSelect key={filter.label} filter={filter} rows={rows ?? []} value={chosen[filter.label] ?? ""} onChange={(value) => show({ chosen: { ...chosen, [filter.label]: value }, page: 1 })} />
            ))}
            {tools}
          </Group>
          <Group gap="sm">
            <Text size="sm" className="quiet number" role="status">
              {found && rows && `${remote || found.length === rows.length ? "" : `${count(found.length)} of `}${plural(remote ? total : rows.length, noun, many)}`}
            </Text>
            {chooser && <ColumnChooser list={label} columns={all} choice={choice} />}
          </Group>
        </Group>
      )}
      {marked.length > 0 && (
        <Group className="selection" px="md" py={8} gap="sm" role="region" aria-label="Selection">
          <Text size="sm" fw={500} className="number">
            {plural(marked.length, noun, many)} selected
          </Text>
          {selection?.actions(marked, clear)}
          <Button variant="subtle" color="gray" size="compact-sm" onClick={clear}>
            Clear
          </Button>
        </Group>
      )}
      <Table.ScrollContainer minWidth={0} type="native">
        <Table className={cards ? "data-table cards" : "data-table"} highlightOnHover verticalSpacing={4} horizontalSpacing="md" aria-label={label}>
          <Table.Thead>
            <Table.Tr>
              {selects && (
                <Table.Th scope="col" className="select">
                  <Mark label={`Select all ${noun === "" ? "rows" : (many ?? `${noun}s`)} ${remote && pages > 1 ? "of this page" : "found"}`} keys={(found ?? []).map(id)} selected={selected} onMark={mark} disabled={remote?.pending ?? false} />
                </Table.Th>
              )}
              {columns.map((column) => (
                <Heading key={column.name} column={column} down={sorting === column ? down : undefined} onSort={(down) => show({ column: column.name, down })} />
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shown?.map((row) => (
              <Table.Tr key={id(row)} data-selected={selected.has(id(row)) || undefined}>
                {selects && (
                  <Table.Td className="select">
                    <Mark label={`Select ${id(row)}`} keys={[id(row)]} selected={selected} onMark={mark} />
                  </Table.Td>
                )}
                {columns.map((column) => (
                  <Table.Td key={column.name} className={classes(column)}>
                    {column.cell(row)}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
            {!shown && <Waiting columns={columns.length + (selects ? 1 : 0)} />}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {found?.length === 0 && (
        <Text size="sm" className="quiet" ta="center" p="lg">
          {words.trim() ? <>Nothing matches “{words.trim()}”.</> : "Nothing matches the filters."}
        </Text>
      )}
      {pages > 1 && (
        <Group p="sm" justify="flex-end">
          <Pagination size="sm" total={pages} value={current} onChange={(page) => show({ page })} getControlProps={(control) => ({ "aria-label": `${control} page` })} getItemProps={(number) => ({ "aria-label": `Page ${number}` })} />
        </Group>
      )}
    </>
  );
}

type MarkProps = { label: string; disabled?: boolean; keys: string[]; selected: ReadonlyMap<string, unknown>; onMark: (keys: string[], on: boolean) => void };

function Mark({ label, disabled = false, keys, selected, onMark }: MarkProps) {
  const on = keys.filter((key) => selected.has(key)).length;
  return <Checkbox size="xs" aria-label={label} disabled={disabled} checked={on > 0 && on === keys.length} indeterminate={on > 0 && on < keys.length} onChange={(event) => onMark(keys, event.currentTarget.checked)} />;
}

type FilterProps<Row> = { filter: Filter<Row>; rows: Row[]; value: string; onChange: (value: string) => void };

/** One filter of a table; nothing if the filter has no choices. */
function FilterSelect<Row>({ filter: { label, of, choices: given, onOpen }, rows, value, onChange }: FilterProps<Row>) {
  const choices = useMemo(() => given ?? [...new Set(rows.flatMap(of))].sort((a, b) => NAMES.compare(a, b)), [given, rows, of]);
  if (!given && choices.length === 0 && value === "") return null;
  return <Select aria-label={`Filter by ${label.toLowerCase()}`} placeholder={label} data={choices} value={value || null} {...(onOpen && { onDropdownOpen: onOpen })} onChange={(next) => onChange(next ?? "")} limit={100} searchable clearable style={{ flex: "1 1 120px", maxWidth: 170 }} />;
}

function classes(column: { right?: boolean; wide?: boolean | "xl"; main?: boolean }): string | undefined {
  return [column.right && "right", column.main && "main", column.wide === "xl" ? "xl-only" : column.wide && "wide-only"].filter(Boolean).join(" ") || undefined;
}

function Heading<Row>({ column, down, onSort }: { column: Column<Row>; down: boolean | undefined; onSort: (down: boolean) => void }) {
  const sorted = down !== undefined;
  const Arrow = !sorted ? ChevronsUpDown : down ? ArrowDown : ArrowUp;
  if (!isSortable(column)) return <Table.Th scope="col" className={classes(column)}>{column.name || <span aria-hidden />}</Table.Th>;
  return (
    <Table.Th scope="col" className={classes(column)} aria-sort={sorted ? (down ? "descending" : "ascending") : "none"}>
      <button type="button" className="sort" data-sorted={sorted || undefined} onClick={() => onSort(sorted ? !down : (column.down ?? false))}>
        {column.name}
        <Arrow size={13} aria-hidden />
      </button>
    </Table.Th>
  );
}

function Waiting({ columns }: { columns: number }) {
  return Array.from({ length: 4 }, (_, row) => (
    <Table.Tr key={row}>
      {Array.from({ length: columns }, (_, column) => (
        <Table.Td key={column}>
          <Skeleton height={12} width={column === 0 ? "60%" : "40%"} />
        </Table.Td>
      ))}
    </Table.Tr>
  ));
}

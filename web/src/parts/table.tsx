/** A list: sorted by a click on a column, searched by words, shown a page at a time, so that thousands stay fluid. */
import { Group, Pagination, Skeleton, Table, Text, TextInput } from "@mantine/core";
import { ArrowDown, ArrowUp, ChevronsUpDown, Search } from "lucide-react";
import { useMemo, useState, type ReactNode } from "react";
import { count, plural } from "../format";

export type Column<Row> = {
  name: string;
  /** What the cell shows. */
  cell: (row: Row) => ReactNode;
  /** What it is sorted by; without it the column is not sorted. */
  key?: (row: Row) => string | number;
  /** The largest first, as of times. */
  down?: boolean;
  right?: boolean;
  /** Left out on narrow screens. */
  wide?: boolean;
};

type Props<Row> = {
  label: string;
  noun: string;
  /** Its plural, when that is not with an s. */
  many?: string;
  rows: Row[] | undefined;
  columns: Column<Row>[];
  id: (row: Row) => string;
  /** The words that a search looks into; without it there is no search. */
  text?: (row: Row) => string;
  empty: ReactNode;
  pageSize?: number;
  tools?: ReactNode;
};

type Order = { column: number; down: boolean };

/** Rows that hold every word, in order. */
export function arrange<Row>(rows: Row[], words: string, text: ((row: Row) => string) | undefined, column: Column<Row> | undefined, down: boolean): Row[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = text && wanted.length > 0 ? rows.filter((row) => contains(text(row).toLowerCase(), wanted)) : rows;
  const key = column?.key;
  if (!key) return found;
  const sign = down ? -1 : 1;
  return [...found].sort((a, b) => sign * compare(key(a), key(b)));
}

function contains(text: string, words: string[]): boolean {
  return words.every((word) => text.includes(word));
}

const NAMES = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

function compare(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : NAMES.compare(String(a), String(b));
}

export function DataTable<Row>({ label, noun, many, rows, columns, id, text, empty, pageSize = 50, tools }: Props<Row>) {
  const [words, setWords] = useState("");
  const [order, setOrder] = useState<Order>(() => {
    const column = columns.findIndex((column) => column.key);
    return { column, down: columns[column]?.down ?? false };
  });
  const [page, setPage] = useState(1);
  const found = useMemo(
    () => (rows ? arrange(rows, words, text, columns[order.column], order.down) : undefined),
    [rows, words, text, columns, order],
  );
  if (rows?.length === 0) {
    return (
      <>
        {tools && <Group p="sm">{tools}</Group>}
        {empty}
      </>
    );
  }
  const pages = Math.max(1, Math.ceil((found?.length ?? 0) / pageSize));
  const current = Math.min(page, pages);
  const shown = found?.slice((current - 1) * pageSize, current * pageSize);
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
              onChange={(event) => {
                setWords(event.currentTarget.value);
                setPage(1);
              }}
              style={{ flex: "1 1 160px", maxWidth: 320 }}
            />
            {tools}
          </Group>
          <Text size="sm" className="quiet number" role="status">
            {found && rows && `${found.length === rows.length ? "" : `${count(found.length)} of `}${plural(rows.length, noun, many)}`}
          </Text>
        </Group>
      )}
      <Table.ScrollContainer minWidth={0} type="native">
        <Table className="data-table" highlightOnHover verticalSpacing={4} horizontalSpacing="md" aria-label={label}>
          <Table.Thead>
            <Table.Tr>
              {columns.map((column, index) => (
                <Heading key={column.name} column={column} down={order.column === index ? order.down : undefined} onSort={(down) => setOrder({ column: index, down })} />
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shown?.map((row) => (
              <Table.Tr key={id(row)}>
                {columns.map((column) => (
                  <Table.Td key={column.name} className={classes(column)}>
                    {column.cell(row)}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
            {!shown && <Waiting columns={columns.length} />}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {found?.length === 0 && (
        <Text size="sm" className="quiet" ta="center" p="lg">
          Nothing matches “{words.trim()}”.
        </Text>
      )}
      {pages > 1 && (
        <Group p="sm" justify="flex-end">
          <Pagination size="sm" total={pages} value={current} onChange={setPage} getControlProps={(control) => ({ "aria-label": `${control} page` })} getItemProps={(number) => ({ "aria-label": `Page ${number}` })} />
        </Group>
      )}
    </>
  );
}

function classes(column: { right?: boolean; wide?: boolean }): string | undefined {
  return [column.right && "right", column.wide && "wide-only"].filter(Boolean).join(" ") || undefined;
}

function Heading<Row>({ column, down, onSort }: { column: Column<Row>; down: boolean | undefined; onSort: (down: boolean) => void }) {
  const sorted = down !== undefined;
  const Arrow = !sorted ? ChevronsUpDown : down ? ArrowDown : ArrowUp;
  if (!column.key) return <Table.Th className={classes(column)}>{column.name || <span aria-hidden />}</Table.Th>;
  return (
    <Table.Th className={classes(column)} aria-sort={sorted ? (down ? "descending" : "ascending") : "none"}>
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

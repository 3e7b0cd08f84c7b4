import { expect, test } from "vitest";
import { storedChoice } from "./columns";
import { arrange, type Column, filtered, firstShown } from "./table";

type Row = { name: string; size: number };
const NAME: Column<Row> = { name: "Name", cell: (row) => row.name, key: (row) => row.name };
const SIZE: Column<Row> = { name: "Size", cell: (row) => row.size, key: (row) => row.size };
const ROWS = [
  { name: "db10", size: 1 },
  { name: "db2", size: 30 },
  { name: "Alpha sql", size: 4 },
];
const names = (rows: Row[]) => rows.map((row) => row.name);

test("names are sorted as people count, sizes as numbers", () => {
  expect(names(arrange(ROWS, "", undefined, NAME, false))).toEqual(["Alpha sql", "db2", "db10"]);
  expect(names(arrange(ROWS, "", undefined, SIZE, true))).toEqual(["db2", "Alpha sql", "db10"]);
});

test("a list is sorted at first by the column that says so, else by the first that is sorted", () => {
  expect(firstShown([NAME, SIZE])).toMatchObject({ column: "Name", down: false });
  expect(firstShown([NAME, { ...SIZE, first: true, down: true }])).toMatchObject({ column: "Size", down: true });
});

test("a search finds rows that hold every word", () => {
  const find = (words: string) => names(arrange(ROWS, words, (row) => row.name, NAME, false));
  expect(find("DB")).toEqual(["db2", "db10"]);
  expect(find("sql alp")).toEqual(["Alpha sql"]);
  expect(find("sql db")).toEqual([]);
});

test("filters leave the rows that belong to each choice", () => {
  const filters = [
    { label: "First letter", of: (row: Row) => [row.name.charAt(0)] },
    { label: "Size", of: (row: Row) => (row.size > 2 ? ["large"] : []) },
  ];
  const left = (chosen: Record<string, string>) => names(filtered(ROWS, filters, chosen));
  expect(left({})).toEqual(names(ROWS));
  expect(left({ "First letter": "d" })).toEqual(["db10", "db2"]);
  expect(left({ "First letter": "d", Size: "large" })).toEqual(["db2"]);
  expect(left({ Size: "" })).toEqual(names(ROWS));
});

test("a choice of columns that is damaged is the default", () => {
  for (const text of [null, "", "{", "3", "null"]) expect(storedChoice(text)).toEqual({});
  expect(storedChoice('{"Size":false,"IOPS":"yes"}')).toEqual({ Size: false });
});

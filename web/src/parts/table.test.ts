import { expect, test } from "vitest";
import { arrange, type Column } from "./table";

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

test("a search finds rows that hold every word", () => {
  const find = (words: string) => names(arrange(ROWS, words, (row) => row.name, NAME, false));
  expect(find("DB")).toEqual(["db2", "db10"]);
  expect(find("sql alp")).toEqual(["Alpha sql"]);
  expect(find("sql db")).toEqual([]);
});

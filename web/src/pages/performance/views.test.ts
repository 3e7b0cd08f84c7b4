import { expect, test } from "vitest";
import { storedViews, withView } from "./views";

test("a view takes the place of one with the same name", () => {
  const views = withView(withView([], { name: "nightly backup", search: "of=host:a" }), { name: "all", search: "of=array" });
  expect(views.map((it) => it.name)).toEqual(["all", "nightly backup"]);
  expect(withView(views, { name: "all", search: "of=array&last=60" })).toEqual([{ name: "all", search: "of=array&last=60" }, views[1]]);
});

test("damaged storage is no view", () => {
  for (const text of [null, "", "{", "null", "3", '{"name":"a"}']) expect(storedViews(text)).toEqual([]);
  expect(storedViews('[{"name":"a","search":"s"},{"name":1,"search":"s"},null]')).toEqual([{ name: "a", search: "s" }]);
});

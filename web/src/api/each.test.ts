import { expect, test } from "vitest";
import { each } from "./each";
import { Refusal } from "./refusal";

const name = (it: string) => it;

test("a change is made for each, and counted", async () => {
  const done: string[] = [];
  const run = (it: string) => Promise.resolve(done.push(it));
  expect(await each(["a", "b", "c", "d", "e", "f"], name, run)).toBe(6);
  expect(done.sort()).toEqual(["a", "b", "c", "d", "e", "f"]);
});

test("one that fails stops no other, and is named with its reason", async () => {
  const done: string[] = [];
  const run = (it: string) => (it === "b" ? Promise.reject(new Refusal("No", "disconnect it first", 409, "precondition")) : Promise.resolve(done.push(it)));
  const refused = await each(["a", "b", "c"], name, run).catch((error: unknown) => error as Refusal);
  expect(refused).toMatchObject({ title: "1 of 3 failed", detail: "b: disconnect it first" });
  expect(done).toEqual(["a", "c"]);
});

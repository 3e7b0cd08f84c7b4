import { renderHook } from "@testing-library/react";
import { act } from "react";
import { expect, test } from "vitest";
import { alive, check, SILENT_MS, usePulse } from "./pulse";

test("an array that says nothing for too long is not responding, until it says something", () => {
  const { result } = renderHook(() => usePulse());
  act(() => alive());
  act(() => check(performance.now() + SILENT_MS - 100));
  expect(result.current).toBe("answers");
  act(() => check(performance.now() + SILENT_MS + 100));
  expect(result.current).toBe("silent");
  act(() => alive());
  expect(result.current).toBe("answers");
});

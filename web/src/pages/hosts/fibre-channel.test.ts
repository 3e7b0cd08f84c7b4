import { expect, test } from "vitest";
import { lossText } from "./fibre-channel";
import { sessionCount } from "./sessions";

const link = { state: "Online", speed: "16 Gbit", link_failures: 0, sync_losses: null, signal_losses: 0, invalid_crcs: 0 };

test("losses are named by kind, and what an adapter does not count is not", () => {
  expect(lossText(link)).toBeNull();
  expect(lossText({ ...link, link_failures: 2, invalid_crcs: 1200 })).toBe("link failure: 2, wrong CRC: 1,200");
});

test("a host is logged in by any protocol", () => {
  expect(sessionCount({ sessions: 1, controllers: 2, fibre_channel_sessions: 4 })).toBe(7);
});

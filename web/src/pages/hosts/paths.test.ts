import { expect, test } from "vitest";
import type { SchemaHost, SchemaPath as Path, SchemaWork as Work } from "../../api/schema";
import { busy, portal as newPortal } from "../../../mock/array";
import { balanceText, rowsOf } from "./paths";
import { missingPaths } from "./state";

const work: Work = { iops: 1, bytes_per_second: 1, failures: 0, latency_us: { mean: null, p50: null, p95: null, p99: null, max: null } };
const path = (portal: number, initiator = "iqn.a"): Path => ({ host: "h", initiator, portal, sessions: 1, share: null, total: work, read: work, write: work, offload: work }) as Path;

const portal = (number: number, protocol: "iscsi" | "nvme-tcp" | "fibre-channel", address: string) => ({ number, protocol, address });

test("every portal has a row, also one without a session and one that is no more", () => {
  const rows = rowsOf([path(1), path(1, "iqn.b"), path(3)], [portal(1, "iscsi", "10.0.0.1:3260"), portal(2, "iscsi", "10.0.1.1:3260")]);
  expect(rows.map((it) => [it.portal, it.address, it.path?.initiator])).toEqual([
    [1, "10.0.0.1:3260", "iqn.a"],
    [1, "10.0.0.1:3260", "iqn.b"],
    [2, "10.0.1.1:3260", undefined],
    [3, "portal 3", "iqn.a"],
  ]);
});

test("a host misses the portals that listen without a session of it", () => {
  const host = { ...(busy(0, 1).hosts[0] as SchemaHost), name: "esx1" };
  const all = [{ ...newPortal(1, "10.0.0.1:3260", true), hosts: ["esx1"] }, newPortal(2, "10.0.1.1:3260", true), { ...newPortal(3, "10.0.2.1:3260", true), state: "down" as const }];
  expect(missingPaths(host, all).map((it) => it.number)).toEqual([2]);
});

test("balance is said of two paths or more", () => {
  expect(balanceText(1, null)).toBeNull();
  expect(balanceText(2, 0.1)).toContain("Balanced");
  expect(balanceText(2, 0.9)).toContain("Uneven");
});

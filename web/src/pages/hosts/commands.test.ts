import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { esxi, linux, proxmox, windows, type Step } from "./commands";
import { initiatorsOf } from "./forms";

const WAY = { portals: ["10.0.0.1:3260", "[fd00::2]:3261"], target: "iqn.2026-11.io.ashlar:1" };
const typed = (steps: Step[]) => steps.map((step) => step.commands).join("\n");

test("the commands of every system name every portal and the target", () => {
  expect(typed(linux(WAY))).toContain("iscsiadm -m discovery -t sendtargets -p 10.0.0.1:3260");
  expect(typed(linux(WAY))).toContain("-T iqn.2026-11.io.ashlar:1 --login");
  for (const portal of WAY.portals) expect(typed(esxi(WAY))).toContain(`--address=${portal}`);
  expect(typed(windows(WAY))).toContain("-TargetPortalAddress fd00::2 -TargetPortalPortNumber 3261");
});

test("secrets are asked for only with CHAP", () => {
  for (const system of [linux, esxi, windows, proxmox]) {
    expect(typed(system(WAY))).not.toContain("SECRET");
    expect(typed(system({ ...WAY, chapUser: "web1" }))).toContain("web1");
  }
  expect(typed(linux({ ...WAY, chapUser: "web1", mutualUser: "array" }))).toContain("username_in -v array");
});

test("multipathing is configured before the first log-in, and on ESXi the claim rules before discovery", () => {
  const before = (steps: Step[], first: string, second: string) => {
    const text = typed(steps);
    expect(text.indexOf(first), first).toBeGreaterThanOrEqual(0);
    expect(text.indexOf(second), second).toBeGreaterThan(text.indexOf(first));
  };
  before(linux(WAY), "conf.d/ashlar.conf", "--login");
  before(linux(WAY), "replacement_timeout -v 15", "--login");
  before(esxi({ ...WAY, chapUser: "web1" }), "satp rule add", "auth chap set");
  before(esxi({ ...WAY, chapUser: "web1" }), "auth chap set", "discovery sendtarget add");
  before(windows(WAY), "Enable-MSDSMAutomaticClaim", "Connect-IscsiTarget");
});

test("mutual CHAP on Windows sets the secret of the array and names the method", () => {
  const mutual = typed(windows({ ...WAY, chapUser: "web1", mutualUser: "array" }));
  expect(mutual).toContain("Set-IscsiChapSecret -ChapSecret 'ARRAY-SECRET'");
  expect(mutual).toContain("-AuthenticationType MUTUALCHAP");
  expect(typed(windows({ ...WAY, chapUser: "web1" }))).toContain("-AuthenticationType ONEWAYCHAP");
});

test("the multipath block of the page is that of the documentation", () => {
  const block = readFileSync("../docs/operating/hosts.md", "utf8").match(/devices \{[\s\S]*?\n\}/)?.[0];
  expect(block).toBeTruthy();
  expect(typed(linux(WAY))).toContain(block);
});

test("initiator names are taken as they are pasted", () => {
  expect(initiatorsOf("InitiatorName=iqn.1993-08.org.debian:01:a\n iqn.1998-01.com.vmware:b, eui.02")).toEqual([
    "iqn.1993-08.org.debian:01:a",
    "iqn.1998-01.com.vmware:b",
    "eui.02",
  ]);
});

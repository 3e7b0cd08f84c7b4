import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { busy, portal, status } from "../../../mock/array";
import type { SchemaHost as Host } from "../../api/schema";
import { protocolsOf, stepsFor, SYSTEMS, systemOf, usable, type Protocol, type System } from "./commands";
import { initiatorsOf, namesByKind, namesError } from "./forms";
import * as iscsi from "./iscsi-commands";
import * as nvme from "./nvme-commands";
import type { Step } from "./steps";

const ISCSI = { portals: ["10.0.0.1:3260", "[fd00::2]:3261"], target: "iqn.2026-11.io.ashlar:1" };
const NVME = { portals: ["10.0.0.1:4420", "10.0.0.1:8009", "[fd00::2]:4420"], subsystem: "nqn.2026-11.io.ashlar:1" };
const ALL = Object.keys(SYSTEMS) as System[];
const typed = (steps: Step[]) => steps.map((step) => step.commands).join("\n");
const everything = (steps: Step[]) => steps.map((step) => `${step.title}\n${step.commands}\n${step.note ?? ""}`).join("\n");

test("the commands of every system name every portal and the target", () => {
  expect(typed(iscsi.linux(ISCSI))).toContain("iscsiadm -m discovery -t sendtargets -p 10.0.0.1:3260");
  expect(typed(iscsi.linux(ISCSI))).toContain("-T iqn.2026-11.io.ashlar:1 --login");
  for (const portal of ISCSI.portals) expect(typed(iscsi.esxi(ISCSI))).toContain(`--address=${portal}`);
  expect(typed(iscsi.windows(ISCSI))).toContain("-TargetPortalAddress fd00::2 -TargetPortalPortNumber 3261");
  expect(typed(nvme.linux(NVME))).toContain("--traddr=10.0.0.1 --trsvcid=8009");
  expect(typed(nvme.linux(NVME))).toContain("--traddr=fd00::2 --trsvcid=4420");
  expect(typed(nvme.esxi(NVME))).toContain("-i 10.0.0.1 -p 8009 -c");
  expect(typed(nvme.windows(NVME))).toContain("-ta fd00::2 -ts 4420");
  expect(typed(nvme.windows(NVME))).not.toContain("8009");
});

test("secrets are asked for only if the host needs them", () => {
  for (const system of ALL) {
    expect(typed(iscsi[system](ISCSI))).not.toContain("SECRET");
    expect(typed(iscsi[system]({ ...ISCSI, chapUser: "web1" }))).toContain("web1");
    expect(typed(nvme[system](NVME))).not.toContain("SECRET");
  }
  expect(typed(iscsi.linux({ ...ISCSI, chapUser: "web1", mutualUser: "array" }))).toContain("username_in -v array");
  expect(typed(nvme.linux({ ...NVME, dhchap: true, dhchapController: true }))).toContain("--dhchap-secret=SECRET --dhchap-ctrl-secret=ARRAY-SECRET");
  expect(typed(nvme.linux({ ...NVME, tls: true }))).toContain("-n nqn.2026-11.io.ashlar:1 --tls");
});

test("multipathing is configured before the first disk, and on ESXi the claim rules before discovery", () => {
  const before = (steps: Step[], first: string, second: string) => {
    const text = typed(steps);
    expect(text.indexOf(first), first).toBeGreaterThanOrEqual(0);
    expect(text.indexOf(second), second).toBeGreaterThan(text.indexOf(first));
  };
  before(iscsi.linux(ISCSI), "conf.d/ashlar.conf", "--login");
  before(iscsi.linux(ISCSI), "replacement_timeout -v 15", "--login");
  before(iscsi.esxi({ ...ISCSI, chapUser: "web1" }), "satp rule add", "auth chap set");
  before(iscsi.esxi({ ...ISCSI, chapUser: "web1" }), "auth chap set", "discovery sendtarget add");
  before(iscsi.windows(ISCSI), "Enable-MSDSMAutomaticClaim", "Connect-IscsiTarget");
  before(nvme.linux(NVME), 'ATTR{iopolicy}="round-robin"', "nvme connect-all");
  before(nvme.linux(NVME), "/etc/nvme/discovery.conf", "enable nvmf-autoconnect");
});

test("a disk with two paths gets a map by itself", () => {
  for (const system of ["linux", "proxmox"] as const) expect(typed(iscsi[system](ISCSI))).toContain("defaults {\n  find_multipaths yes\n}");
});

test("mutual CHAP on Windows sets the secret of the array and names the method", () => {
  const mutual = typed(iscsi.windows({ ...ISCSI, chapUser: "web1", mutualUser: "array" }));
  expect(mutual).toContain("Set-IscsiChapSecret -ChapSecret 'ARRAY-SECRET'");
  expect(mutual).toContain("-AuthenticationType MUTUALCHAP");
  expect(typed(iscsi.windows({ ...ISCSI, chapUser: "web1" }))).toContain("-AuthenticationType ONEWAYCHAP");
});

const NAMES: Pick<Host, "initiators" | "nqns" | "wwpns"> = { initiators: [], nqns: [], wwpns: [] };
const PORTALS = [
  portal(1, "10.0.0.1:3260", true),
  { ...portal(2, "10.0.0.1:4420", true), protocol: "nvme-tcp" as const },
  { ...portal(3, "10.0.0.1:8009", true), protocol: "nvme-tcp" as const },
  { ...portal(4, "10.0.0.1:4421", false), protocol: "nvme-tcp" as const, tls: true },
];

test("a host is shown the commands of its protocols only, whatever its system", () => {
  const state = busy(0, 1);
  const host = (names: Partial<Host>): Host => ({ ...(state.hosts[0] as Host), ...NAMES, ...names });
  const words: Record<Protocol, RegExp> = { iscsi: /iscsi|iqn\./i, "nvme-tcp": /nvme|nqn\./i, "fibre-channel": /fc_host|Fibre/ };
  const named: Record<Protocol, Host> = { iscsi: host({ initiators: ["iqn.a"] }), "nvme-tcp": host({ nqns: ["nqn.a"] }), "fibre-channel": host({ wwpns: ["21:00:00:24:ff:00:00:01"] }) };
  for (const [protocol, it] of Object.entries(named) as [Protocol, Host][]) {
    expect(protocolsOf(it)).toEqual([protocol]);
    for (const system of ALL) {
      // The plug-in for Proxmox VE is a step for iSCSI.
      const text = everything(stepsFor(protocol, system, it, status(state), PORTALS));
      expect(text).not.toBe("");
      for (const other of Object.keys(words) as Protocol[]) if (other !== protocol) expect(text, `${system}, ${protocol}`).not.toMatch(words[other]);
    }
  }
  expect(protocolsOf(host({ initiators: ["iqn.a"], nqns: ["nqn.a"] }))).toEqual(["iscsi", "nvme-tcp"]);
});

test("a host misses no portal of a protocol that it has no name for", () => {
  const all = [...PORTALS, { ...portal(5, "21:00:00:24:ff:00:00:01", true), protocol: "fibre-channel" as const }];
  const numbers = (names: Partial<typeof NAMES>) => usable(all, { ...NAMES, tls: false, ...names }).map((it) => it.number);
  expect(numbers({ wwpns: ["21:00:00:24:ff:00:00:a1"] })).toEqual([5]);
  expect(numbers({ initiators: ["iqn.a"], nqns: ["nqn.a"] })).toEqual([1, 2]);
});

test("a host with TLS uses portals with TLS, one without the others; without a portal there are no commands", () => {
  const state = busy(0, 1);
  const host = { ...(state.hosts[0] as Host), ...NAMES, nqns: ["nqn.a"] };
  const numbers = (tls: boolean) => usable(PORTALS, { ...host, tls }).map((it) => it.number);
  expect(numbers(false)).toEqual([2]);
  expect(numbers(true)).toEqual([4]);
  expect(typed(stepsFor("nvme-tcp", "linux", { ...host, tls: true }, status(state), PORTALS))).toContain("-s 4421");
  expect(stepsFor("nvme-tcp", "linux", host, status(state), PORTALS.slice(0, 1))).toEqual([]);
});

test("the operating system is known by the names that it makes", () => {
  expect(systemOf({ ...NAMES, initiators: ["iqn.1998-01.com.vmware:esx1-77"] })).toBe("esxi");
  expect(systemOf({ ...NAMES, nqns: ["nqn.2014-08.com.vmware:nvme:esx1"] })).toBe("esxi");
  expect(systemOf({ ...NAMES, initiators: ["iqn.1991-05.com.microsoft:db3"] })).toBe("windows");
  expect(systemOf({ ...NAMES, nqns: ["nqn.2014-08.org.nvmexpress:uuid:1"] })).toBe("linux");
});

/** The commands of a page of the documentation, each step below its title. */
const block = (steps: Step[]) => steps.map(({ title, commands }) => `# ${title}\n${commands}\n`).join("");

/** Access as the documentation has it. `WRITE=1 npx vitest run commands` writes the blocks. */
const DOCUMENTED: Record<string, (system: System) => Step[]> = {
  iscsi: (system) => iscsi[system]({ portals: ["10.0.0.1:3260", "10.0.1.1:3260"], target: "IQN" }),
  "nvme-tcp": (system) => nvme[system]({ portals: ["10.0.0.1:4420", "10.0.1.1:4420"], subsystem: "nqn.2026-11.io.ashlar:SERIAL" }),
};

test("the documentation has the commands of the pages", () => {
  const found: string[] = [];
  for (const page of ["hosts.md", "nvme.md"]) {
    const path = `../docs/operating/${page}`;
    const text = readFileSync(path, "utf8");
    const expected = text.replaceAll(/<!-- commands: (\S+) (\S+) -->\n```(\w+)\n[^]*?```\n/g, (_, protocol: string, system: System, language: string) => {
      found.push(`${protocol} ${system}`);
      return `<!-- commands: ${protocol} ${system} -->\n\`\`\`${language}\n${block(DOCUMENTED[protocol]?.(system) ?? [])}\`\`\`\n`;
    });
    if (process.env["WRITE"]) writeFileSync(path, expected);
    else expect(text).toBe(expected);
  }
  const all = Object.keys(DOCUMENTED).flatMap((protocol) => ["linux", "esxi", "windows"].map((system) => `${protocol} ${system}`));
  expect(found.sort()).toEqual(all.sort());
});

test("initiator names are taken as they are pasted, those of NVMe by their form", () => {
  expect(initiatorsOf("InitiatorName=iqn.1993-08.org.debian:01:a\n iqn.1998-01.com.vmware:b, eui.02")).toEqual([
    "iqn.1993-08.org.debian:01:a",
    "iqn.1998-01.com.vmware:b",
    "eui.02",
  ]);
  expect(namesByKind("iqn.1993-08.org.debian:01:a nqn.2014-08.org.nvmexpress:uuid:1")).toEqual({ initiators: ["iqn.1993-08.org.debian:01:a"], nqns: ["nqn.2014-08.org.nvmexpress:uuid:1"] });
  expect(namesError("nqn.2014-08.org.nvmexpress:uuid:1")).toBeNull();
  expect(namesError("")).toContain("NQN");
  expect(namesError("web1")).toContain("not an iSCSI name");
});

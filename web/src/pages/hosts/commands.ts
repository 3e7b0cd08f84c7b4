/**
 * Which commands a host gets: by the protocols that it has names of, and by its operating system. The blocks of commands in
 * `docs/operating/hosts.md` and `nvme.md` are made of the same steps.
 */
import type { SchemaArray as Array, SchemaHost as Host, SchemaTargetPortal as Portal } from "../../api/schema";
import * as fibreChannel from "./fibre-channel-commands";
import * as iscsi from "./iscsi-commands";
import * as nvme from "./nvme-commands";
import { isDiscovery } from "./nvme-commands";
import type { Step } from "./steps";

export type Protocol = Portal["protocol"];
export type System = "linux" | "esxi" | "windows" | "proxmox";

export const SYSTEMS: Record<System, string> = { linux: "Linux", esxi: "VMware ESXi", windows: "Windows", proxmox: "Proxmox VE" };
export const PROTOCOLS: Record<Protocol, string> = { iscsi: "iSCSI", "nvme-tcp": "NVMe/TCP", "fibre-channel": "Fibre Channel" };

type Names = Pick<Host, "initiators" | "nqns" | "wwpns">;

/** The protocols of a host's names. */
export function protocolsOf({ initiators, nqns, wwpns }: Names): Protocol[] {
  const names: [Protocol, string[]][] = [["iscsi", initiators], ["nvme-tcp", nqns], ["fibre-channel", wwpns]];
  return names.filter(([, of]) => of.length > 0).map(([protocol]) => protocol);
}

/** The portals for a host's I/O: of its protocols and its TLS requirement, without portals for discovery only. */
export function usable<P extends Pick<Portal, "protocol" | "address" | "tls">>(portals: readonly P[], host: Names & Pick<Host, "tls">): P[] {
  const protocols = protocolsOf(host);
  return portals.filter((it) => protocols.includes(it.protocol) && (it.protocol !== "nvme-tcp" || (it.tls === host.tls && !isDiscovery(it.address))));
}

/** Prefixes of the names that operating systems generate. */
const MADE_BY: [RegExp, System][] = [
  [/^iqn\.1998-01\.com\.vmware[:.]|^nqn\.[^:]*com\.vmware[:.]/i, "esxi"],
  [/^iqn\.1991-05\.com\.microsoft[:.]|^nqn\.[^:]*com\.microsoft[:.]/i, "windows"],
];

/** The operating system according to a host's names; Linux by default. */
export function systemOf({ initiators, nqns }: Names): System {
  const names = [...initiators, ...nqns];
  return MADE_BY.find(([prefix]) => names.some((name) => prefix.test(name)))?.[1] ?? "linux";
}

/** The commands for this host; none while the array has no portal for it. */
export function stepsFor(protocol: Protocol, system: System, host: Host, array: Pick<Array, "portals" | "target_iqn" | "subsystem_nqn">, portals: Pick<Portal, "protocol" | "address" | "tls">[]): Step[] {
  if (protocol === "fibre-channel") return fibreChannel[system]();
  if (protocol === "iscsi") return array.portals.length === 0 ? [] : iscsi[system]({ portals: array.portals, target: array.target_iqn, chapUser: host.chap_user, mutualUser: host.mutual_user });
  const usable = portals.filter((it) => it.protocol === "nvme-tcp" && it.tls === host.tls).map((it) => it.address);
  return usable.length === 0 ? [] : nvme[system]({ portals: usable, subsystem: array.subsystem_nqn, dhchap: host.dhchap, dhchapController: host.dhchap_controller, tls: host.tls });
}

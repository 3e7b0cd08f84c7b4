/** Pages of the documentation about alerts, below `docs/operating`: by kind, or by the kind's part before the dot. */
const PAGES: Record<string, string> = {
  array: "recovery.md",
  space: "drives.md",
  group: "first-steps.md",
  drive: "drives.md",
  store: "ceph.md",
  controller: "cluster.md",
  replication: "replication.md",
  scrub: "drives.md",
  protection: "drives.md",
  data: "recovery.md",
  metadata: "recovery.md",
  portal: "install.md",
  api: "install.md",
  host: "hosts.md",
  "volume.state-unreadable": "recovery.md",
  upgrade: "upgrade.md",
  clock: "troubleshooting.md",
  audit: "access.md",
  secrets: "encryption.md",
  certificate: "access.md",
  folder: "install.md",
  "remote-array": "remote-arrays.md",
};

/** The page about a kind of alert; the default, monitoring, lists all kinds. */
export function documentation(kind: string): string {
  return PAGES[kind] ?? PAGES[kind.split(".")[0] ?? ""] ?? "monitoring.md";
}

/** Commands for hosts with NVMe/TCP: persistent connections to every portal, and native multipath. */
import { sharedLvm, split, type Step } from "./steps";

/** `portals`: addresses with ports, according to the host's TLS requirement. */
export type NvmeAccess = { portals: string[]; subsystem: string; dhchap?: boolean; dhchapController?: boolean; tls?: boolean };

/** TCP port of portals that serve discovery only. */
const DISCOVERY_PORT = "8009";

/** Whether a portal serves discovery only. */
export const isDiscovery = (portal: string) => split(portal).port === DISCOVERY_PORT;

/** One portal of each address for discovery: the discovery portal, if the address has one. */
export function discoveryPortals(portals: string[]): { address: string; port: string }[] {
  const found = new Map<string, string>();
  for (const { address, port } of portals.map(split)) if (!found.has(address) || port === DISCOVERY_PORT) found.set(address, port);
  return [...found].map(([address, port]) => ({ address, port }));
}

const ioPortals = (portals: string[]) => portals.filter((it) => !isDiscovery(it)).map(split);

/** The host retries a path without end; otherwise Linux removes the disk after ten minutes. */
const KEEP = "--ctrl-loss-tmo=-1";

export function linux({ portals, subsystem, dhchap, dhchapController, tls }: NvmeAccess): Step[] {
  const secrets = [dhchap && "--dhchap-secret=SECRET", dhchap && dhchapController && "--dhchap-ctrl-secret=ARRAY-SECRET"].filter(Boolean);
  const options = [...secrets, KEEP].join(" ");
  const entries = discoveryPortals(portals).map(({ address, port }) => `--transport=tcp --traddr=${address} --trsvcid=${port} ${options}`);
  const tlsConnections = ioPortals(portals).map(({ address, port }) => `nvme connect -t tcp -a ${address} -s ${port} -n ${subsystem} --tls ${options}`);
  const fill = secrets.length > 0 ? " Fill in the secrets." : "";
  const connection: Step[] = tls
    ? [
        { title: "Put the key that is derived from the PSK into the keyring; tlshd has to run.", commands: `nvme check-tls-key --insert --hostnqn "$(cat /etc/nvme/hostnqn)" --subsysnqn ${subsystem} --identity=1 --keydata PSK`, note: "The keyring is lost with a restart of the host: repeat this step and the next one then, such as by a service." },
        { title: `Connect to every portal.${fill}`, commands: tlsConnections.join("\n") },
      ]
    : [
        { title: `Name the array for this and every later start.${fill}`, commands: `cat >> /etc/nvme/discovery.conf <<'END'\n${entries.join("\n")}\nEND\nchmod 600 /etc/nvme/discovery.conf` },
        { title: "Connect to every portal that discovery finds, now and at each start.", commands: "nvme connect-all\nsystemctl enable nvmf-autoconnect.service" },
      ];
  return [
    { title: "Install the tools and load the driver (on Red Hat: dnf install nvme-cli). The last command prints the NQN by which the array knows the host.", commands: "apt install nvme-cli\necho nvme-tcp > /etc/modules-load.d/nvme-tcp.conf\nmodprobe nvme-tcp\ncat /etc/nvme/hostnqn" },
    { title: "Use all paths in turn: native multipath, which has to print Y, with round robin.", commands: `cat /sys/module/nvme_core/parameters/multipath\ncat > /etc/udev/rules.d/71-ashlar-nvme.rules <<'END'\nACTION=="add|change", SUBSYSTEM=="nvme-subsystem", ATTR{model}=="ALL-FLASH ARRAY", ATTR{iopolicy}="round-robin"\nEND\nudevadm control --reload`, note: "The kernel's default sends everything by one path. multipathd is not for these disks." },
    ...connection,
    { title: "See the paths, the policy and the disks. They are found by their identifiers, not by nvme0n1, which may change.", commands: "nvme list-subsys\ncat /sys/class/nvme-subsystem/nvme-subsys*/iopolicy\nls -l /dev/disk/by-id/nvme-*", note: "Volumes that are connected or resized later appear by themselves." },
  ];
}

export function esxi({ portals, dhchap, tls }: NvmeAccess): Step[] {
  const discover = discoveryPortals(portals).map(({ address, port }) => `  esxcli nvme fabrics discover -a $HBA -i ${address} -p ${port} -c`);
  const other = [dhchap && "DH-HMAC-CHAP", tls && "TLS"].filter(Boolean).join(" and ");
  return [
    { title: "Enable NVMe/TCP on the uplink of each storage network, and allow it on its VMkernel interface: put in the names.", commands: "esxcli nvme fabrics enable --protocol TCP --device VMNIC\nesxcli network ip interface tag add --interface-name VMK --tagname NVMeTCP" },
    { title: "Compare the NQN with those of the host on this page.", commands: "esxcli nvme info get" },
    {
      title: "Connect each adapter to every portal that discovery finds. The connections last over restarts.",
      commands: ["for HBA in $(esxcli nvme adapter list | awk '/nvmetcp/ {print $1}'); do", ...discover, "done"].join("\n"),
      note: `An adapter can't reach portals of other networks: the error for them is no fault.${other && ` This host requires ${other}: what ESXi needs for it is in the documentation of VMware.`}`,
    },
    { title: "See the controllers and the disks. The high-performance plug-in claims them, all paths in turn (LB-RR).", commands: "esxcli nvme controller list\nesxcli nvme namespace list\nesxcli storage hpp device list" },
  ];
}

export function windows({ portals, subsystem, dhchap, tls }: NvmeAccess): Step[] {
  const other = [dhchap && "DH-HMAC-CHAP", tls && "TLS"].filter(Boolean).join(" and ");
  const io = ioPortals(portals);
  return [
    {
      title: "Windows Server has the initiator as a preview, for tests only. As administrator, see its adapter and host gateway, here number 0 each, and the NQN of the host.",
      commands: "nvmeofutil.exe list -t ia\nnvmeofutil.exe list -t hg -ia 0\nnvmeofutil.exe host -ia 0",
      note: `Names of options may change with each preview: nvmeofutil.exe add -? lists them.${other && ` This host requires ${other}, of which this page has no commands for Windows.`}`,
    },
    { title: "Add each portal.", commands: io.map(({ address, port }, index) => `nvmeofutil.exe add -t sp -ia 0 -hg 0 -dy true -pi ${index + 1} -nq ${subsystem} -ta ${address} -ts ${port}`).join("\n") },
    { title: "Connect to each, by the numbers that the list shows.", commands: ["nvmeofutil.exe list -t sp -ia 0", ...io.map((_, index) => `nvmeofutil.exe connect -ia 0 -sp ${index}`)].join("\n") },
    { title: "See the disks.", commands: "Update-HostStorageCache\nGet-Disk | Where-Object BusType -eq NVMeof" },
  ];
}

/** The storage plug-in uses iSCSI, so these steps do not name it. */
export function proxmox(access: NvmeAccess): Step[] {
  return sharedLvm(linux(access), "/dev/disk/by-id/NAME", "with the name from /dev/disk/by-id");
}

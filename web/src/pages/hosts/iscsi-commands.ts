/** Commands for hosts that use iSCSI: log-in by every portal, and multipathing over all of them. */
import { esxiClaimRules, linuxMultipath, sharedLvm, split, windowsMultipath, type Step } from "./steps";

/** `portals`: addresses with ports. The users are those of CHAP and of mutual CHAP, if it is required. */
export type IscsiAccess = { portals: string[]; target: string; chapUser?: string | null; mutualUser?: string | null };

/** Seconds after which a session without a connection passes its commands to the other paths. */
const REPLACEMENT_TIMEOUT_SECONDS = 15;

export function linux({ portals, target, chapUser, mutualUser }: IscsiAccess): Step[] {
  const first = portals[0] ?? "";
  const node = `iscsiadm -m node -T ${target}`;
  const set = (name: string, value: string) => `${node} -o update -n ${name} -v ${value}`;
  const auth = (name: string, value: string) => set(`node.session.auth.${name}`, value);
  const chap = chapUser ? [auth("authmethod", "CHAP"), auth("username", chapUser), auth("password", "SECRET")] : [];
  const mutual = mutualUser ? [auth("username_in", mutualUser), auth("password_in", "ARRAY-SECRET")] : [];
  return [
    { title: "Install the initiator and multipathing (on Red Hat: dnf install iscsi-initiator-utils device-mapper-multipath).", commands: "apt install open-iscsi multipath-tools" },
    linuxMultipath,
    { title: "Find the array.", commands: `iscsiadm -m discovery -t sendtargets -p ${first}` },
    ...(chap.length > 0 ? [{ title: "Configure CHAP; fill in the secrets.", commands: [...chap, ...mutual].join("\n"), note: "Every user of the host can read the arguments of iscsiadm while it runs. The documentation has other ways." }] : []),
    { title: "Set the time-out after which other paths are used.", commands: set("node.session.timeo.replacement_timeout", `${REPLACEMENT_TIMEOUT_SECONDS}`), note: "With multipathing only. Without it keep 120 s or more." },
    { title: "Log in by every portal, now and at each start.", commands: `${set("node.startup", "automatic")}\n${node} --login` },
    { title: "See the disks. After a volume was connected or resized, rescan first.", commands: "iscsiadm -m session --rescan\nmultipath -ll\nlsblk -o NAME,SIZE,VENDOR,MODEL,WWN" },
  ];
}

export function esxi({ portals, chapUser, mutualUser }: IscsiAccess): Step[] {
  const auth = (direction: string, user: string, secret: string) => `esxcli iscsi adapter auth chap set --adapter=$HBA --direction=${direction} --level=required \\\n  --authname=${user} --secret=${secret}`;
  return [
    esxiClaimRules,
    { title: "Enable the software adapter, and keep its name.", commands: "esxcli iscsi software set --enabled=true\nHBA=$(esxcli iscsi adapter list | awk '/iscsi_vmk/ {print $1}')" },
    ...(chapUser ? [{ title: "Configure CHAP of the adapter, before discovery; fill in the secrets.", commands: [auth("uni", chapUser, "SECRET"), ...(mutualUser ? [auth("mutual", mutualUser, "ARRAY-SECRET")] : [])].join("\n") }] : []),
    { title: "Add the portals, and discover.", commands: [...portals.map((portal) => `esxcli iscsi adapter discovery sendtarget add --adapter=$HBA --address=${portal}`), "esxcli iscsi adapter discovery rediscover --adapter=$HBA", "esxcli storage core adapter rescan --adapter=$HBA"].join("\n") },
    { title: "See the disks: round robin, and the offloads supported.", commands: "esxcli storage nmp device list | grep -A 8 ASHLAR\nesxcli storage core device vaai status get" },
  ];
}

/** Windows takes CHAP secrets of this length only. */
const WINDOWS_SECRET = "Windows takes CHAP secrets of 12 to 16 characters.";

export function windows({ portals, target, chapUser, mutualUser }: IscsiAccess): Step[] {
  const kind = mutualUser ? "MUTUALCHAP" : "ONEWAYCHAP";
  const chap = chapUser ? ` -AuthenticationType ${kind} -ChapUsername '${chapUser}' -ChapSecret 'SECRET'` : "";
  const connect = (portal: string) => {
    const { address, port } = split(portal);
    return `Connect-IscsiTarget -NodeAddress '${target}' -TargetPortalAddress ${address} -TargetPortalPortNumber ${port} -IsPersistent $true -IsMultipathEnabled $true${chap}`;
  };
  const look = portals.map((portal) => {
    const { address, port } = split(portal);
    return `New-IscsiTargetPortal -TargetPortalAddress ${address} -TargetPortalPortNumber ${port}`;
  });
  return [
    { title: "In PowerShell as administrator: start the initiator and install multipathing.", commands: "Set-Service MSiSCSI -StartupType Automatic; Start-Service MSiSCSI\nInstall-WindowsFeature Multipath-IO", note: "If it asks for a restart, restart before the next step." },
    windowsMultipath("Enable-MSDSMAutomaticClaim -BusType iSCSI"),
    ...(mutualUser ? [{ title: "Set the secret by which the array authenticates itself (mutual CHAP).", commands: "Set-IscsiChapSecret -ChapSecret 'ARRAY-SECRET'", note: WINDOWS_SECRET }] : []),
    { title: "Find the array.", commands: look.join("\n") },
    { title: chapUser ? "Log in by every portal; fill in the secret." : "Log in by every portal.", commands: portals.map(connect).join("\n"), ...(chapUser && !mutualUser && { note: WINDOWS_SECRET }) },
    { title: "See the disks, and their paths.", commands: "Update-HostStorageCache\nGet-Disk | Where-Object BusType -eq iSCSI\nmpclaim -s -d" },
  ];
}

export function proxmox(access: IscsiAccess): Step[] {
  return [
    { title: "With the plug-in each virtual disk is a volume: on every node install the package, and on one node add the storage.", commands: `apt install ./ashlar-proxmox_*_all.deb\npvesm add ashlar flash --ashlar-url ${location.origin} --password TOKEN --ashlar-fingerprint FINGERPRINT --content images,rootdir`, note: "TOKEN: an API token with the role operator. FINGERPRINT: of the certificate, in Settings. The plug-in logs in and connects by itself." },
    ...sharedLvm(linux(access), "/dev/mapper/WWID", "with the name from multipath -ll"),
  ];
}

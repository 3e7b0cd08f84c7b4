/** What to type on a host, so that it logs in by every portal and uses all of them as one disk. `docs/operating/hosts.md` says the same. */

export type Way = { portals: string[]; target: string; chapUser?: string | null; mutualUser?: string | null };
/** `note`: what to know before. */
export type Step = { title: string; commands: string; note?: string };

/** Seconds after which a session that lost its connection gives its commands to the other paths. */
const REPLACEMENT_TIMEOUT_SECONDS = 15;
/** Times of five seconds that commands wait while there is no path: two minutes, which covers a restart of the array. */
const NO_PATH_RETRY = 24;

const MULTIPATH_CONF = `devices {
  device {
    vendor "ASHLAR"
    product "ALL-FLASH ARRAY"
    path_grouping_policy multibus
    path_selector "round-robin 0"
    rr_min_io_rq 1
    path_checker tur
    failback immediate
    no_path_retry ${NO_PATH_RETRY}
  }
}`;

/** Address and port of `10.0.0.1:3260` or `[fe80::1]:3260`. */
function split(portal: string): { address: string; port: string } {
  const colon = portal.lastIndexOf(":");
  return { address: portal.slice(0, colon).replace(/^\[|\]$/g, ""), port: portal.slice(colon + 1) };
}

export function linux({ portals, target, chapUser, mutualUser }: Way): Step[] {
  const first = portals[0] ?? "";
  const node = `iscsiadm -m node -T ${target}`;
  const set = (name: string, value: string) => `${node} -o update -n ${name} -v ${value}`;
  const auth = (name: string, value: string) => set(`node.session.auth.${name}`, value);
  const chap = chapUser ? [auth("authmethod", "CHAP"), auth("username", chapUser), auth("password", "SECRET")] : [];
  const mutual = mutualUser ? [auth("username_in", mutualUser), auth("password_in", "ARRAY-SECRET")] : [];
  return [
    { title: "Install the initiator and multipathing (on Red Hat: dnf install iscsi-initiator-utils device-mapper-multipath).", commands: "apt install open-iscsi multipath-tools" },
    { title: "Configure multipathing before the first disk appears.", commands: `mkdir -p /etc/multipath/conf.d\ncat > /etc/multipath/conf.d/ashlar.conf <<'END'\n${MULTIPATH_CONF}\nEND\nsystemctl enable --now multipathd\nsystemctl restart multipathd`, note: `Without a path, I/O waits ${(NO_PATH_RETRY * 5) / 60} minutes and fails then: a finite time matters on cluster nodes.` },
    { title: "Find the array.", commands: `iscsiadm -m discovery -t sendtargets -p ${first}` },
    ...(chap.length > 0 ? [{ title: "Configure CHAP; fill in the secrets.", commands: [...chap, ...mutual].join("\n") }] : []),
    { title: "Set the time-out after which other paths are used.", commands: set("node.session.timeo.replacement_timeout", `${REPLACEMENT_TIMEOUT_SECONDS}`), note: "With multipathing only. Without it keep 120 s or more." },
    { title: "Log in by every portal, now and at each start.", commands: `${set("node.startup", "automatic")}\n${node} --login` },
    { title: "See the disks. After a volume was connected or resized, rescan first.", commands: "iscsiadm -m session --rescan\nmultipath -ll\nlsblk -o NAME,SIZE,VENDOR,MODEL,WWN" },
  ];
}

export function esxi({ portals, chapUser, mutualUser }: Way): Step[] {
  const auth = (direction: string, user: string, secret: string) => `esxcli iscsi adapter auth chap set --adapter=$HBA --direction=${direction} --level=required \\\n  --authname=${user} --secret=${secret}`;
  return [
    {
      title: "Add the claim rules first: they hold for disks that appear afterwards.",
      commands:
        "esxcli storage nmp satp rule add --satp=VMW_SATP_ALUA --vendor=ASHLAR --psp=VMW_PSP_RR --psp-option=iops=1\n" +
        "esxcli storage core claimrule add --rule=911 --claimrule-class=VAAI --type=vendor --vendor=ASHLAR \\\n  --plugin=VMW_VAAIP_T10 --xcopy-use-array-values -k 16384\n" +
        "esxcli storage core claimrule load --claimrule-class=VAAI",
      note: "A disk that was there before keeps its old rules until the host is restarted.",
    },
    { title: "Enable the software adapter, and keep its name.", commands: "esxcli iscsi software set --enabled=true\nHBA=$(esxcli iscsi adapter list | awk '/iscsi_vmk/ {print $1}')" },
    ...(chapUser ? [{ title: "Configure CHAP of the adapter, before discovery; fill in the secrets.", commands: [auth("uni", chapUser, "SECRET"), ...(mutualUser ? [auth("mutual", mutualUser, "ARRAY-SECRET")] : [])].join("\n") }] : []),
    { title: "Add the portals, and discover.", commands: [...portals.map((portal) => `esxcli iscsi adapter discovery sendtarget add --adapter=$HBA --address=${portal}`), "esxcli iscsi adapter discovery rediscover --adapter=$HBA", "esxcli storage core adapter rescan --adapter=$HBA"].join("\n") },
    { title: "See the disks: round robin, and the offloads supported.", commands: "esxcli storage nmp device list | grep -A 8 ASHLAR\nesxcli storage core device vaai status get" },
  ];
}

/** Windows takes CHAP secrets of this length only. */
const WINDOWS_SECRET = "Windows takes CHAP secrets of 12 to 16 characters.";

export function windows({ portals, target, chapUser, mutualUser }: Way): Step[] {
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
    { title: "Let multipathing claim iSCSI disks, before the first one appears.", commands: "Enable-MSDSMAutomaticClaim -BusType iSCSI\nSet-MSDSMGlobalDefaultLoadBalancePolicy -Policy RR\nSet-MPIOSetting -NewPathVerificationState Enabled -NewDiskTimeout 60" },
    ...(mutualUser ? [{ title: "Set the secret by which the array authenticates itself (mutual CHAP).", commands: "Set-IscsiChapSecret -ChapSecret 'ARRAY-SECRET'", note: WINDOWS_SECRET }] : []),
    { title: "Find the array.", commands: look.join("\n") },
    { title: chapUser ? "Log in by every portal; fill in the secret." : "Log in by every portal.", commands: portals.map(connect).join("\n"), ...(chapUser && !mutualUser && { note: WINDOWS_SECRET }) },
    { title: "See the disks, and their paths.", commands: "Update-HostStorageCache\nGet-Disk | Where-Object BusType -eq iSCSI\nmpclaim -s -d" },
  ];
}

export function proxmox(way: Way): Step[] {
  return [
    { title: "With the plug-in each virtual disk is a volume: on every node install the package, and on one node add the storage.", commands: `apt install ./ashlar-proxmox_*_all.deb\npvesm add ashlar flash --ashlar-url ${location.origin} --password TOKEN --ashlar-fingerprint FINGERPRINT --content images,rootdir`, note: "TOKEN: an API token with the role operator. FINGERPRINT: of the certificate, in Settings. The plug-in logs in and connects by itself." },
    ...linux(way).map((step, index) => (index === 0 ? { ...step, title: `Without the plug-in, as shared LVM: on every node do these steps. ${step.title}` } : step)),
    { title: "Then on one node, with the name from multipath -ll.", commands: "pvcreate /dev/mapper/WWID\nvgcreate vmstore /dev/mapper/WWID\npvesm add lvm vmstore --vgname vmstore --shared 1 --content images,rootdir" },
  ];
}

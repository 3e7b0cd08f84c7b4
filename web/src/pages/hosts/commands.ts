/** What to type on a host, so that it logs in by every portal and uses all of them as one disk. */

export type Way = { portals: string[]; target: string; chapUser?: string | null; mutualUser?: string | null };
export type Step = { title: string; commands: string };

/** Address and port of `10.0.0.1:3260` or `[fe80::1]:3260`. */
function split(portal: string): { address: string; port: string } {
  const colon = portal.lastIndexOf(":");
  return { address: portal.slice(0, colon).replace(/^\[|\]$/g, ""), port: portal.slice(colon + 1) };
}

export function linux({ portals, target, chapUser, mutualUser }: Way): Step[] {
  const first = portals[0] ?? "";
  const node = `iscsiadm -m node -T ${target}`;
  const set = (name: string, value: string) => `${node} -o update -n node.session.auth.${name} -v ${value}`;
  const chap = chapUser ? [set("authmethod", "CHAP"), set("username", chapUser), set("password", "SECRET")] : [];
  const mutual = mutualUser ? [set("username_in", mutualUser), set("password_in", "ARRAY-SECRET")] : [];
  return [
    { title: "Install the initiator and multipathing (Debian, Ubuntu; on Red Hat: iscsi-initiator-utils, device-mapper-multipath).", commands: "apt install open-iscsi multipath-tools" },
    { title: "Find the array.", commands: `iscsiadm -m discovery -t sendtargets -p ${first}` },
    ...(chap.length > 0 ? [{ title: "Configure CHAP; fill in the secrets.", commands: [...chap, ...mutual].join("\n") }] : []),
    { title: "Log in by every portal, now and at each start.", commands: `${node} -o update -n node.startup -v automatic\n${node} --login` },
    { title: "See the disks. After a volume was connected or resized, rescan first.", commands: "iscsiadm -m session --rescan\nmultipath -ll\nlsblk -o NAME,SIZE,VENDOR,MODEL,WWN" },
  ];
}

export function esxi({ portals, target, chapUser, mutualUser }: Way): Step[] {
  const auth = (direction: string, user: string, secret: string) =>
    `esxcli iscsi adapter target portal auth chap set --adapter=$HBA --name=${target} --address=${portals[0]} \\\n  --direction=${direction} --level=required --authname=${user} --secret=${secret}`;
  return [
    { title: "Switch the software adapter on, and remember its name.", commands: "esxcli iscsi software set --enabled=true\nHBA=$(esxcli iscsi adapter list | awk '/iscsi_vmk/ {print $1}')" },
    { title: "Tell it the portals, and let it look.", commands: [...portals.map((portal) => `esxcli iscsi adapter discovery sendtarget add --adapter=$HBA --address=${portal}`), "esxcli iscsi adapter discovery rediscover --adapter=$HBA"].join("\n") },
    ...(chapUser ? [{ title: "Configure CHAP; fill in the secrets.", commands: [auth("uni", chapUser, "SECRET"), ...(mutualUser ? [auth("mutual", mutualUser, "ARRAY-SECRET")] : [])].join("\n") }] : []),
    { title: "Use all paths in turn.", commands: "esxcli storage nmp satp rule add --satp=VMW_SATP_ALUA --vendor=ASHLAR --psp=VMW_PSP_RR --psp-option=iops=1" },
    { title: "See the disks.", commands: "esxcli storage core adapter rescan --adapter=$HBA\nesxcli storage core device list | grep -A 3 ASHLAR" },
  ];
}

export function windows({ portals, target, chapUser }: Way): Step[] {
  const chap = chapUser ? ` -AuthenticationType ONEWAYCHAP -ChapUsername '${chapUser}' -ChapSecret 'SECRET'` : "";
  const connect = (portal: string) => {
    const { address, port } = split(portal);
    return `Connect-IscsiTarget -NodeAddress '${target}' -TargetPortalAddress ${address} -TargetPortalPortNumber ${port} -IsPersistent $true -IsMultipathEnabled $true${chap}`;
  };
  const look = portals.map((portal) => {
    const { address, port } = split(portal);
    return `New-IscsiTargetPortal -TargetPortalAddress ${address} -TargetPortalPortNumber ${port}`;
  });
  return [
    { title: "In PowerShell as administrator: start the initiator, and switch multipathing on (it may ask for a restart).", commands: "Set-Service MSiSCSI -StartupType Automatic; Start-Service MSiSCSI\nInstall-WindowsFeature Multipath-IO\nEnable-MSDSMAutomaticClaim -BusType iSCSI" },
    { title: "Find the array.", commands: look.join("\n") },
    { title: chapUser ? "Log in by every portal; put the secret in." : "Log in by every portal.", commands: portals.map(connect).join("\n") },
    { title: "See the disks.", commands: "Update-HostStorageCache\nGet-Disk | Where-Object BusType -eq iSCSI" },
  ];
}

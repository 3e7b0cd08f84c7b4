/** Host steps that several protocols share. */

/** Commands to type on a host. `note`: a remark to read first. */
export type Step = { title: string; commands: string; note?: string };

/** Address and port of `10.0.0.1:3260` or `[fe80::1]:3260`. */
export function split(portal: string): { address: string; port: string } {
  const colon = portal.lastIndexOf(":");
  return { address: portal.slice(0, colon).replace(/^\[|\]$/g, ""), port: portal.slice(colon + 1) };
}

/** Polls of five seconds that commands wait without a path: two minutes, enough for a restart of the array. */
const NO_PATH_RETRY = 24;

// Without find_multipaths a new disk gets no map, and the host uses it over a single path.
const MULTIPATH_CONF = `defaults {
  find_multipaths yes
}
devices {
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

/** Multipathing of SCSI disks on Linux. */
export const linuxMultipath: Step = {
  title: "Configure multipathing before the first disk appears.",
  commands: `mkdir -p /etc/multipath/conf.d\ncat > /etc/multipath/conf.d/ashlar.conf <<'END'\n${MULTIPATH_CONF}\nEND\nsystemctl enable --now multipathd\nsystemctl restart multipathd`,
  note: `Without a path, I/O waits ${(NO_PATH_RETRY * 5) / 60} minutes and fails then: a finite time matters on cluster nodes.`,
};

/** Claim rules of SCSI disks on ESXi. */
export const esxiClaimRules: Step = {
  title: "Add the claim rules first: they hold for disks that appear afterwards.",
  commands:
    "esxcli storage nmp satp rule add --satp=VMW_SATP_ALUA --vendor=ASHLAR --psp=VMW_PSP_RR --psp-option=iops=1\n" +
    "esxcli storage core claimrule add --rule=911 --claimrule-class=VAAI --type=vendor --vendor=ASHLAR \\\n  --plugin=VMW_VAAIP_T10 --xcopy-use-array-values -k 16384\n" +
    "esxcli storage core claimrule load --claimrule-class=VAAI",
  note: "A disk that was there before keeps its old rules until the host is restarted.",
};

/** Multipathing of SCSI disks on Windows. `claim`: the command that claims the disks. */
export const windowsMultipath = (claim: string): Step => ({
  title: "Let multipathing claim the disks, before the first one appears.",
  commands: `${claim}\nSet-MSDSMGlobalDefaultLoadBalancePolicy -Policy RR\nSet-MPIOSetting -NewPathVerificationState Enabled -NewDiskTimeout 60`,
});

/** Shared LVM of Proxmox VE on a disk of every node. `device`: the disk's path, `from`: the source of its name. */
export function sharedLvm(steps: Step[], device: string, from: string): Step[] {
  return [
    ...steps.map((step, index) => (index === 0 ? { ...step, title: `As shared LVM, without the plug-in: on every node do these steps. ${step.title}` } : step)),
    { title: `Then on one node, ${from}.`, commands: `pvcreate ${device}\nvgcreate vmstore ${device}\npvesm add lvm vmstore --vgname vmstore --shared 1 --content images,rootdir` },
  ];
}

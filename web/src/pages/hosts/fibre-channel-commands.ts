/** Commands for hosts with Fibre Channel: zoning replaces the log-in, so only multipathing and a rescan remain. */
import { esxiClaimRules, linuxMultipath, sharedLvm, windowsMultipath, type Step } from "./steps";

export function linux(): Step[] {
  return [
    { title: "Install multipathing (on Red Hat: dnf install device-mapper-multipath).", commands: "apt install multipath-tools" },
    linuxMultipath,
    { title: "See the disks. After a volume was connected or resized, rescan first.", commands: "for host in /sys/class/fc_host/host*; do echo '- - -' > /sys/class/scsi_host/${host##*/}/scan; done\nmultipath -ll\nlsblk -o NAME,SIZE,VENDOR,MODEL,WWN" },
  ];
}

export function esxi(): Step[] {
  return [
    esxiClaimRules,
    { title: "Rescan.", commands: "esxcli storage core adapter rescan --all" },
    { title: "See the disks: round robin, and the offloads supported.", commands: "esxcli storage nmp device list | grep -A 8 ASHLAR\nesxcli storage core device vaai status get" },
  ];
}

export function windows(): Step[] {
  return [
    { title: "In PowerShell as administrator: install multipathing.", commands: "Install-WindowsFeature Multipath-IO", note: "If it asks for a restart, restart before the next step." },
    windowsMultipath("New-MSDSMSupportedHW -VendorId 'ASHLAR' -ProductId 'ALL-FLASH ARRAY'"),
    { title: "See the disks, and their paths.", commands: "Update-HostStorageCache\nGet-Disk | Where-Object BusType -eq 'Fibre Channel'\nmpclaim -s -d" },
  ];
}

export const proxmox = (): Step[] => sharedLvm(linux(), "/dev/mapper/WWID", "with the name from multipath -ll");

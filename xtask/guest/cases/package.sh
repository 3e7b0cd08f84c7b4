# A Debian server from the installation of the package to its removal: nothing starts before drives are named, a LUN is
# served, the server reboots, loses power, the daemon is killed and hangs, the package is upgraded under a mounted file system,
# removed and purged. What was written is verified after each step, and keys and drives outlive the packages.
# The script runs again from its beginning at each boot; /root/step has what to do there.
CONFIG=/etc/ashlar/ashlar.toml
DATA=/var/lib/ashlar
INITIATOR=iqn.2001-04.org.example:server
export DEBIAN_FRONTEND=noninteractive
install_deb() { apt-get install -qq -y --no-install-recommends --allow-downgrades "$1" >/tmp/apt 2>&1 || { cat /tmp/apt; fail "apt"; }; }
is_active() { [ "$(systemctl is-active "$1")" = active ]; }
pid() { systemctl show -P MainPID ashlard; }
iqn() { ashlar -o json array status | sed -n 's/.*"target_iqn": *"\([^"]*\)".*/\1/p'; }
another_start() { echo "$1" >/root/step; sync; touch /run/lab/again; }

# The initiator of this machine, by its own LUN.
attach() {
  modprobe iscsi_tcp; IQN=$(iqn)
  iscsiadm -m discovery -t sendtargets -p 127.0.0.1:3260 >/dev/null
  iscsiadm -m node -T "$IQN" -p 127.0.0.1:3260 --login >/dev/null; udevadm settle
  DISK=/dev/disk/by-path/ip-127.0.0.1:3260-iscsi-$IQN-lun-1
  until_true 60 test -b "$DISK"
}
mount_it() { mkdir -p /mnt/fs; mount "$DISK" /mnt/fs; }
write() { head -c 8M /dev/urandom >"/mnt/fs/$1"; sync -f "/mnt/fs/$1"; (cd /mnt/fs && sha256sum "$1") >>/root/sums; sync; }
intact() { echo 3 >/proc/sys/vm/drop_caches; (cd /mnt/fs && sha256sum --quiet -c /root/sums) || fail "files changed"; }
marked() { udevadm info -q property "$1" | grep -qx "ASHLAR_DRIVE=1"; }
# Drives are marked, and others do not take them.
all_marked() {
  local drive
  for drive in /dev/disk/by-id/virtio-lab-[0-2] /dev/nvme0n1; do
    marked "$drive" || fail "$drive: $(udevadm info -q property "$drive")"
    multipath -c "$drive" >/dev/null 2>&1 && fail "multipath takes $drive"
  done
  marked /dev/vda && fail "the disk of the system is marked"
  return 0
}
back() { is_active ashlard && [ "$(pid)" != "$1" ] && ashlar array status >/dev/null 2>&1; }

install() {
  say "install"
  install_deb /run/lab/old.deb
  id ashlar | grep -q disk || fail "the user is not in the group disk"
  [ "$(stat -c '%U %a' $DATA)" = "ashlar 700" ] || fail "$(stat $DATA)"
  [ "$(systemctl is-enabled ashlard)" = disabled ] || fail "enabled before it is configured"
  is_active ashlar-smart.socket || fail "no drive health"
  for page in /usr/share/bash-completion/completions/ashlar /usr/lib/firewalld/services/ashlar-hosts.xml; do
    [ -e $page ] || fail "$page is missing"
  done

  say "nothing starts without named drives"
  systemctl start ashlard 2>/dev/null && fail "it started"
  [ "$(systemctl show -P NRestarts ashlard)" = 0 ] || fail "it was restarted with options that can't work"
  [ -z "$(ls -A $DATA)" ] || fail "it made $(ls -A $DATA)"
  systemctl reset-failed ashlard

  say "configure"
  cat >>$CONFIG <<'TOML'
drive = ["/dev/disk/by-id/virtio-lab-0", "/dev/disk/by-id/virtio-lab-1", "/dev/disk/by-id/virtio-lab-2", "/dev/nvme0n1"]
iscsi = "127.0.0.1"
name = "lab"
TOML
  ashlard config check
  systemctl enable -q --now ashlard
  is_active ashlard || fail "not active"
  systemd-analyze security --threshold=20 ashlard >/dev/null || fail "exposure"
  journalctl -u ashlard | grep -q 'with the password' && fail "a password is in the journal"
  [ "$(ps -o user= -p "$(pid)")" = ashlar ] || fail "the user"
  printf 'a-long-password-1\n' | ashlar user password admin >/dev/null

  say "udev examines drives while the array runs"
  udevadm trigger --action=change --subsystem-match=block
  udevadm settle --timeout=120 || fail "udev waits for the array"
  all_marked

  say "drive health comes through the helper"
  until_true 120 bash -c 'ashlar -o json drive list | grep -q "\"serial\": *\"lab-1\""'

  say "a LUN"
  echo "InitiatorName=$INITIATOR" >/etc/iscsi/initiatorname.iscsi; systemctl restart iscsid
  ashlar volume create data --size 256MiB >/dev/null
  ashlar host create server --iqn $INITIATOR >/dev/null
  ashlar volume connect data --host server --lun 1 >/dev/null
  attach; mkfs.ext4 -q "$DISK"; mount_it
  write first; intact; umount /mnt/fs
  another_start rebooted; systemctl reboot; sleep infinity
}

# The loopback fabric makes the volume a disk of this machine. The mounted disk by iSCSI is another volume, and stays.
fibre_channel() {
  local port=21000024ff000001 drop_in=/etc/systemd/system/ashlard.service.d/fibre-channel.conf initiator=21:00:00:24:ff:00:00:a1
  modprobe -a target_core_user tcm_loop configfs
  mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
  cp $CONFIG /root/without-fc; echo "fc = [\"$port@loopback\"]" >>$CONFIG
  # Not the step of this script that has the same name.
  command install -D /usr/share/ashlar/fibre-channel.conf $drop_in; systemctl daemon-reload
  systemctl restart ashlard; until_true 120 is_active ashlard
  ashlar volume create fc --size 64MiB >/dev/null; ashlar host create fc --wwpn $initiator >/dev/null
  ashlar volume connect fc --host fc --lun 3 >/dev/null
  until_true 60 framed; mkfs.ext4 -q "$(framed)"; e2fsck -fn "$(framed)" >/dev/null 2>&1 || fail "fsck"
  intact
  ashlar volume disconnect fc --host fc >/dev/null; until_true 60 unframed
  cp /root/without-fc $CONFIG; rm $drop_in; systemctl daemon-reload
  systemctl restart ashlard; until_true 120 is_active ashlard
  [ "$(ps -o user= -p "$(pid)")" = ashlar ] || fail "it still runs as root"
  intact
}
# The disk by the loopback fabric: the array's only one whose LUN is 3.
framed() {
  local disk
  for disk in /sys/bus/scsi/devices/*:3/block/*; do [ -e "$disk" ] && echo "/dev/${disk##*/}" && return; done
  return 1
}
unframed() { ! framed >/dev/null; }

rebooted() {
  say "after a reboot"
  until_true 120 is_active ashlard
  all_marked
  attach; mount_it; intact
  write second
  another_start power_failed; touch /run/lab/cut; sleep infinity
}

power_failed() {
  say "after a power failure"
  until_true 300 is_active ashlard
  attach; mount_it; intact

  say "killed under a mounted file system"
  local before; before=$(pid)
  systemctl kill -s KILL ashlard; until_true 120 back "$before"
  write third; intact

  say "hung: the watchdog starts it again"
  before=$(pid); kill -STOP "$before"; until_true 300 back "$before"
  write fourth; intact

  say "Fibre Channel by the service, with the drop-in"
  fibre_channel

  say "upgraded under a mounted file system"
  before=$(pid)
  cp $CONFIG /root/config
  install_deb /run/lab/new.deb
  until_true 120 back "$before"
  dpkg-query -W -f '${Version}' ashlar | grep -q -- '-2$' || fail "$(dpkg -l ashlar)"
  cmp $CONFIG /root/config || fail "the options changed"
  write fifth; intact
  umount /mnt/fs; iscsiadm -m node -T "$IQN" --logout >/dev/null

  say "removed: keys, options and drives stay"
  apt-get remove -qq -y ashlar >/dev/null 2>&1
  [ ! -e /usr/sbin/ashlard ] && [ ! -S /run/ashlar-smart.sock ] || fail "something is left"
  [ -e $DATA/secrets.key ] && [ -e $CONFIG ] || fail "the keys or the options are gone"

  say "installed again: the same array"
  install_deb /run/lab/new.deb
  systemctl enable -q --now ashlard
  attach; mount_it; intact
  umount /mnt/fs; iscsiadm -m node -T "$IQN" --logout >/dev/null

  say "purged: the keys stay unless their removal is confirmed"
  apt-get purge -qq -y ashlar >/dev/null 2>&1
  [ -e $DATA/secrets.key ] && [ ! -e $CONFIG ] || fail "purge"
  install_deb /run/lab/new.deb
  echo "ashlar ashlar/remove-data boolean true" | debconf-set-selections
  apt-get purge -qq -y ashlar >/dev/null 2>&1
  [ ! -e $DATA ] || fail "$DATA is left, although its removal was confirmed"
  [ "$(dd if=/dev/vdb bs=8 count=1 2>/dev/null)" = ASHLABEL ] || fail "a drive was changed"
  say "done"
}

"$(cat /root/step 2>/dev/null || echo install)"

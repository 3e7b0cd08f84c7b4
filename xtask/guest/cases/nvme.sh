# The kernel's NVMe/TCP host: both portals as one multipath device, data, file system, reservations, namespaces that come, grow
# and go, a restart of the array, and DH-HMAC-CHAP. Connections are made through /dev/nvme-fabrics.
SUBSYSTEM=nqn.2026-11.io.ashlar:${IQN##*:}
modprobe -a nvme_fabrics nvme_tcp
HOSTID=7a3f0c5e-1f3b-4e55-9d0e-5c2b7f9a1d10

connect() { # PORT NQN OPTIONS
  echo "transport=tcp,traddr=10.0.2.2,trsvcid=$1,nqn=$2,hostnqn=$HOSTNQN,hostid=$HOSTID,nr_io_queues=1${3:-}" >/dev/nvme-fabrics
}
states() { cat /sys/class/nvme-fabrics/ctl/nvme*/state | sort | tr '\n' ' '; }
live() { [ "$(states)" = "live live " ]; }

say "connect over both portals, with and without digests"
connect "$NVME_A" "$SUBSYSTEM"
connect "$NVME_B" "$SUBSYSTEM" ",hdr_digest,data_digest,keep_alive_tmo=5"
until_true 30 has 2; until_true 30 has 7; udevadm settle
live || fail "states: $(states)"
small=$(namespace 2); native=$(namespace 7)
say "namespaces $small $native"
[ "$(blockdev --getss "$small")" = 512 ] || fail "block size"
[ "$(blockdev --getss "$native")" = 4096 ] || fail "block size"
[ "$(blockdev --getsize64 "$small")" = $((256 << 20)) ] || fail "size"
for state in /sys/class/nvme/nvme*/nvme*c*n*/ana_state; do
  [ "$(cat "$state")" = optimized ] || fail "$state: $(cat "$state")"
done
[ "$(ls -d /sys/class/nvme/nvme*/nvme*c*n* | wc -l)" = 4 ] || fail "two paths of each namespace"
ls /dev/disk/by-id | grep -q nvme- || fail "no name by identity"

say "data"
for device in "$small" "$native"; do verify "$device" 32m; done
mkdir -p /mnt/fs
mkfs.ext4 -q -F "$small"; mount "$small" /mnt/fs
head -c 40M /dev/urandom >/mnt/fs/a; sum=$(sha256sum </mnt/fs/a); sync -f /mnt/fs
fstrim /mnt/fs
umount /mnt/fs; fsck.ext4 -fp "$small" >/dev/null; mount "$small" /mnt/fs
[ "$(sha256sum </mnt/fs/a)" = "$sum" ] || fail "the file changed"

say "the array restarts: its paths come back, and the file system works"
ask restart
head -c 8M /dev/urandom >/mnt/fs/b; sync -f /mnt/fs
until_true 120 live
echo 3 >/proc/sys/vm/drop_caches
[ "$(sha256sum </mnt/fs/a)" = "$sum" ] || fail "the file changed"
umount /mnt/fs; fsck.ext4 -fp "$small" >/dev/null
blkdiscard "$small"
[ "$(ask mapped small)" = 0 ] || fail "small still holds $(ask mapped small)"
cmp -n $((16 << 20)) "$small" /dev/zero

say "namespaces come, grow and go"
ask cli volume connect late --host nvme --lun 20 >/dev/null
until_true 30 has 21
late=$(namespace 21)
ask cli volume resize late --size 128MiB >/dev/null
grown() { [ "$(blockdev --getsize64 "$late")" = $((128 << 20)) ]; }
until_true 30 grown
ask cli volume disconnect late --host nvme >/dev/null
until_true 30 lacks 21

say "a portal is added: it is one more path; it is removed again"
ask cli portal add "127.0.0.1:$NVME_C" --protocol nvme-tcp >/dev/null
connect "$NVME_C" "$SUBSYSTEM"
three() { [ "$(ls -d /sys/class/nvme/nvme*/nvme*c*n* | wc -l)" = 6 ] && [ "$(states)" = "live live live " ]; }
until_true 30 three
verify "$native" 16m
ask cli portal remove "127.0.0.1:$NVME_C" --force >/dev/null
verify "$native" 16m
for controller in /sys/class/nvme/nvme*/delete_controller; do
  grep -q "trsvcid=$NVME_C" "${controller%/*}/address" && echo 1 >"$controller"
done
until_true 30 live

say "DH-HMAC-CHAP: only who knows the secret connects, and the array shows that it knows its own"
of_host=DHHC-1:01:nhr7JP2NMnF+O+sHDpADH7X4X92Mro645HWZ341f6zLhtuL4:
of_array=DHHC-1:03:pOFsH1r9LQpkL7RCEzMIZXP3BfuXOYPwC9UgKXzt+RmM9WHfvrEGNw4K7mAXutAiF+B7hs+nl+crqO7rdPF3OhNSW7U=:
wrong=DHHC-1:00:tzuO87X781NTu5c9pT+yk2K4rC3xzh0G3gcVObMwF1hNWq/J:
disconnect() {
  local controller
  for controller in /sys/class/nvme/nvme*/delete_controller; do
    # Not the NVMe drive of the guest.
    [ "$(cat "${controller%/*}/transport")" = tcp ] && echo 1 >"$controller"
  done
  until_true 30 lacks 2
}
refused() { # CAUSE OPTIONS
  ! connect "$NVME_A" "$SUBSYSTEM" "$2" 2>/dev/null || fail "connected in spite of $1"
  until_true 30 recorded "$1"
}
recorded() {
  ask cli host refused-logins >/tmp/refused
  grep -q "\"$1\"" /tmp/refused
}
disconnect
ask cli host set nvme --dhchap-secret "$of_host" --dhchap-controller-secret "$of_array" >/dev/null
refused dhchap-required ""
refused wrong-dhchap-secret ",dhchap_secret=$wrong"
refused dhchap-controller-refused ",dhchap_secret=$of_host,dhchap_ctrl_secret=$wrong"
connect "$NVME_A" "$SUBSYSTEM" ",dhchap_secret=$of_host"
connect "$NVME_B" "$SUBSYSTEM" ",dhchap_secret=$of_host,dhchap_ctrl_secret=$of_array"
until_true 30 has 2; udevadm settle
live || fail "states: $(states)"
verify "$(namespace 2)" 16m
ask restart
until_true 120 live
verify "$(namespace 2)" 16m
disconnect
ask cli host set nvme --no-dhchap >/dev/null
connect "$NVME_A" "$SUBSYSTEM"
until_true 30 has 2
say "done"

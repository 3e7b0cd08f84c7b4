# ext4 and XFS: made, filled, checked, trimmed; the array's figure for what is allocated follows the file system's.
initiator iqn.2001-04.org.example:guest
discover >/dev/null; login "$PORT_A"
mkdir -p /mnt/fs
used() { local blocks size free; read -r size blocks free < <(stat -f -c '%S %b %f' /mnt/fs); echo $(((blocks - free) * size)); }
allocated() { sync -f /mnt/fs; fstrim /mnt/fs; sync -f /mnt/fs; ask mapped "$1"; }

check() { # KIND VOLUME LUN FORCE [FSCK OPTIONS]
  local device before_array before_fs full_array full_fs after_array after_fs
  device=$(disk "$PORT_A" "$3"); say "$1 on LUN $3"
  "mkfs.$1" -q "$4" "$device"; mount "$device" /mnt/fs
  before_array=$(allocated "$2"); before_fs=$(used)
  head -c 48M /dev/urandom >/mnt/fs/a; head -c 24M /dev/urandom >/mnt/fs/b; mkdir /mnt/fs/d
  for i in $(seq 100); do head -c $((i * 100)) /dev/urandom >"/mnt/fs/d/$i"; done
  (cd /mnt/fs; sha256sum a b d/*) >/tmp/sums
  full_array=$(allocated "$2"); full_fs=$(used)
  say "grew by $((full_array - before_array)) on the array, $((full_fs - before_fs)) in the file system"
  within $((full_array - before_array)) $((full_fs - before_fs)) $((1 << 20)) "growth, $1"
  umount /mnt/fs; "fsck.$1" ${5:-} "$device" >/dev/null; mount "$device" /mnt/fs
  (cd /mnt/fs; sha256sum --quiet -c /tmp/sums) || fail "a file changed"
  rm /mnt/fs/a
  after_array=$(allocated "$2"); after_fs=$(used)
  say "shrank by $((full_array - after_array)) on the array, $((full_fs - after_fs)) in the file system"
  within $((full_array - after_array)) $((full_fs - after_fs)) $((1 << 20)) "shrinkage, $1"
  umount /mnt/fs
}
check ext4 small 0 -F -fp
check xfs small 0 -f
check ext4 native 1 -F -fp
check xfs native 1 -f

say "blkdiscard gives everything back"
for lun in 0 1; do blkdiscard "$(disk "$PORT_A" $lun)"; done
[ "$(ask mapped small)" = 0 ] || fail "small still holds $(ask mapped small)"
[ "$(ask mapped native)" = 0 ] || fail "native still holds $(ask mapped native)"
cmp -n $((64 << 20)) "$(disk "$PORT_A" 0)" /dev/zero
verify "$(disk "$PORT_A" 0)" 32m
verify "$(disk "$PORT_A" 1)" 32m

# Snapshots of two volumes while qemu-ga has frozen their file systems, beside one that was taken without it.
initiator iqn.2001-04.org.example:guest
discover >/dev/null; login "$PORT_A"
mkdir -p /mnt/data /mnt/log /mnt/copy
mkfs.ext4 -q -F "$(disk "$PORT_A" 1)"; mount "$(disk "$PORT_A" 1)" /mnt/data
mkfs.xfs -q -f "$(disk "$PORT_A" 2)"; mount "$(disk "$PORT_A" 2)" /mnt/log

# The hook of an application: what it has in memory goes to its file before the freeze.
mkdir -p /etc/qemu /run/hooks
cat >/etc/qemu/fsfreeze-hook <<'HOOK'
#!/bin/bash
echo "$1" >>/run/hooks/log
[ "$1" != freeze ] || cat /run/hooks/memory >>/mnt/data/records
HOOK
chmod +x /etc/qemu/fsfreeze-hook
qemu-ga --daemonize --fsfreeze-hook=/etc/qemu/fsfreeze-hook --logfile=/run/hooks/agent
until_true 30 test -e /run/qemu-ga.pid

# records N: the application writes a record to each volume, the log's first, and forces nothing to the drives.
records() { echo "$1" >>/mnt/log/records; echo "$1" >>/mnt/data/records; }

# copy SNAPSHOT LUN: the device of a clone of a snapshot.
copy() {
  ask cli volume clone "$1" "copy$2" >/dev/null; ask cli volume connect "copy$2" --host guest --lun "$2" >/dev/null
  iscsiadm -m session --rescan >/dev/null; udevadm settle; disk "$PORT_A" "$2"
}
# dirty DEVICE: whether an ext4 must replay its journal. XFS can't be asked: a freeze leaves a mark in its log, on purpose.
dirty() { dumpe2fs -h "$1" 2>/dev/null | grep -q needs_recovery; }

say "without freezing: journals are to be replayed, and what was not forced out is missing"
records before
ask cli snapshot create data log --suffix plain >/dev/null
dirty "$(copy data.plain 11)" || fail "a mounted ext4 is clean without freezing: the check proves nothing"
mount -o ro,noload "$(disk "$PORT_A" 11)" /mnt/copy
if grep -q before /mnt/copy/records 2>/dev/null; then fail "the record is there without freezing"; fi
umount /mnt/copy

say "frozen by the agent"
echo "in memory" >/run/hooks/memory
records after
ask freeze frozen data log >/tmp/frozen
grep -q '"consistency":"frozen"' /tmp/frozen || fail "not labelled: $(cat /tmp/frozen)"
[ "$(tr '\n' ' ' </run/hooks/log)" = "freeze thaw " ] || fail "hooks: $(cat /run/hooks/log)"

say "what comes after the freeze is written again, and is not in the snapshot"
records later; sync -f /mnt/data; sync -f /mnt/log

data=$(copy data.frozen 12); log=$(copy log.frozen 13)
! dirty "$data" || fail "the frozen ext4 is to be replayed"
fsck.ext4 -fn "$data" >/dev/null || fail "the frozen ext4 has errors"
mount -o ro,noload "$data" /mnt/copy
[ "$(tr '\n' ' ' </mnt/copy/records)" = "before after in memory " ] || fail "data: $(cat /mnt/copy/records)"
umount /mnt/copy
mount -o ro,norecovery,nouuid "$log" /mnt/copy
[ "$(tr '\n' ' ' </mnt/copy/records)" = "before after " ] || fail "log: $(cat /mnt/copy/records)"
umount /mnt/copy
mount -o nouuid "$log" /mnt/copy; umount /mnt/copy
xfs_repair -n "$log" >/dev/null 2>&1 || fail "the frozen XFS has errors: $(xfs_repair -n "$log" 2>&1 | head -n 5)"

say "a suffix that is taken is refused before anything is frozen"
if ask freeze frozen data log >/dev/null; then fail "it was taken twice"; fi
[ "$(wc -l </run/hooks/log)" = 2 ] || fail "it was frozen again"

kill "$(cat /run/qemu-ga.pid)"; until_true 30 test ! -e /run/qemu-ga.pid
umount /mnt/data; umount /mnt/log

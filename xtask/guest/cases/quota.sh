# Rows G20 to G22 as a Linux host feels them: it is warned once, writes find no space while reads go on, writes go on when there
# is space again, and what a file system gives back leaves the array's account.
initiator iqn.2001-04.org.example:guest
discover >/dev/null; login "$PORT_A"
disk=$(disk "$PORT_A" 0)
ask cli group create pool --soft-quota 16MiB --hard-quota 32MiB >/dev/null
ask cli volume set data --group pool >/dev/null
head -c 1M /dev/urandom >/tmp/first
dd if=/tmp/first of="$disk" bs=1M oflag=direct status=none

# write MIB: one MiB that was never written; what the kernel says of it is in /tmp/said.
write() { dd if=/dev/urandom of="$disk" bs=1M count=1 seek="$1" iflag=fullblock oflag=direct status=none 2>/tmp/said; }
warnings() { dmesg | grep -c 'reached a thin provisioning soft threshold' || true; }

say "the soft quota: the host is warned once"
for mib in $(seq 1 20); do write "$mib" || fail "at $mib MiB: $(cat /tmp/said)"; done
warned() { dd if="$disk" of=/dev/null bs=4k count=1 iflag=direct status=none; [ "$(warnings)" = 1 ]; }
until_true 60 warned

say "the hard quota: writes find no space, reads and writes to what is there go on"
mib=21
until ! write "$mib"; do mib=$((mib + 1)); [ "$mib" -lt 200 ] || fail "nothing stops the host"; done
grep -q 'No space left on device' /tmp/said || fail "the host reported: $(cat /tmp/said)"
say "stopped at $mib MiB"
[ "$mib" -ge 32 ] || fail "stopped before the quota"
cmp -n 1048576 "$disk" /tmp/first || fail "what was read is something else"
dd if=/tmp/first of="$disk" bs=1M seek=1 oflag=direct status=none || fail "an overwrite takes no space"
[ "$(ask mapped data)" = $((mib << 20)) ] || fail "the array says $(ask mapped data) for $mib MiB"

say "it grows: the host continues where it stopped"
ask cli group set pool --soft-quota 200MiB --hard-quota 240MiB >/dev/null
goes_on() { write "$mib"; }
until_true 60 goes_on
[ "$(warnings)" = 1 ] || fail "$(warnings) warnings"

say "what is deleted leaves the account, and makes space"
ask cli group set pool --soft-quota none --hard-quota $(((mib + 1)))MiB >/dev/null
until ! write $((mib + 1)); do mib=$((mib + 1)); [ "$mib" -lt 240 ] || fail "nothing stops the host"; done
before=$(ask mapped data)
blkdiscard --offset $((4 << 20)) --length $((8 << 20)) "$disk"
[ "$(ask mapped data)" = $((before - (8 << 20))) ] || fail "$(ask mapped data) of $before after 8 MiB were given back"
again() { write $((mib + 1)); }
until_true 60 again

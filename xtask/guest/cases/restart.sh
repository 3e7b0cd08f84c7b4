# The array is killed and started again under I/O, three times; the initiator recovers and nothing is lost.
initiator iqn.2001-04.org.example:guest
discover >/dev/null
set_node node.session.timeo.replacement_timeout 120
login "$PORT_A"
device=$(disk "$PORT_A" 0)
mkfs.ext4 -q "$device"; mkdir -p /mnt/fs; mount "$device" /mnt/fs
verify "$(disk "$PORT_A" 1)" 64m 2 & load=$!
for round in 1 2 3; do
  head -c 4M /dev/urandom >"/mnt/fs/$round"; sync "/mnt/fs/$round"; sha256sum "/mnt/fs/$round" >>/tmp/sums
  ask crash; say "killed and started, round $round"
done
wait $load || fail "fio over the restarts"
sha256sum --quiet -c /tmp/sums
umount /mnt/fs; fsck.ext4 -fn "$device" >/dev/null; mount "$device" /mnt/fs
sha256sum --quiet -c /tmp/sums
say "and a restart that was asked for"
head -c 4M /dev/urandom >/mnt/fs/asked; sync /mnt/fs/asked; sha256sum /mnt/fs/asked >>/tmp/sums
ask restart
sha256sum --quiet -c /tmp/sums
umount /mnt/fs

# A volume of the Cinder driver on a node: attached by os-brick over two portals, written, extended while in use, detached. The
# driver itself runs on the host, as cinder-volume does.
INITIATOR=iqn.2001-04.org.example:guest
cat >/etc/multipath.conf <<'CONF'
defaults {
  find_multipaths yes
}
blacklist {
  devnode "^vd"
}
CONF
initiator $INITIATOR
multipathd; until_true 30 multipathd show config local >/dev/null
mkdir -p /run/lock/os-brick
export PYTHONPATH=/run/lab/tree PYTHONDONTWRITEBYTECODE=1
brick() { python3 -W ignore /run/lab/tree/node.py "$1"; }
A=5a3c0e1e-0000-4000-8000-000000000001 B=5a3c0e1e-0000-4000-8000-000000000002

say "attach"
for id in $A $B; do ask cinder create $id >/dev/null; done
ask cinder attach $A $INITIATOR >/tmp/a.json
path=$(brick attach </tmp/a.json); say "$path"
[ "$(blockdev --getsize64 "$path")" = $((1 << 30)) ] || fail "size $(blockdev --getsize64 "$path")"
[ "$(multipath -ll | grep -c 'active ready')" = 2 ] || fail "paths: $(multipath -ll)"
mkfs.ext4 -q "$path"; mkdir -p /mnt/volume; mount "$path" /mnt/volume; echo kept >/mnt/volume/file

say "a second volume comes and goes through the same sessions"
cp /tmp/os-brick.json /tmp/first.json
ask cinder attach $B $INITIATOR >/tmp/b.json; other=$(brick attach </tmp/b.json); say "$other"
case $other in /dev/dm-*) ;; *) fail "a single path" ;; esac
[ "$other" != "$path" ] || fail "the same device twice"
brick detach </tmp/b.json; ask cinder detach $B $INITIATOR >/dev/null
cp /tmp/first.json /tmp/os-brick.json
[ "$(multipath -ll | grep -c 'active ready')" = 2 ] || fail "paths: $(multipath -ll)"

say "extended while it is mounted"
ask cinder extend $A 2 >/dev/null
[ "$(brick extend </tmp/a.json)" = $((2 << 30)) ] || fail "not extended"
resize2fs "$path" 2>/dev/null; [ "$(blockdev --getsize64 "$path")" = $((2 << 30)) ] || fail "the map has its old size"
grep -q kept /mnt/volume/file

say "detached, and again in another session"
umount /mnt/volume; brick detach </tmp/a.json; ask cinder detach $A $INITIATOR >/dev/null
[ -z "$(multipath -l 2>/dev/null)" ] || fail "maps: $(multipath -l)"
[ -z "$(iscsiadm -m session 2>/dev/null)" ] || fail "sessions: $(iscsiadm -m session)"
[ -z "$(ls /sys/block | grep '^sd' || true)" ] || fail "disks: $(ls /sys/block)"
ask cinder attach $A $INITIATOR >/tmp/a.json; path=$(brick attach </tmp/a.json)
mount "$path" /mnt/volume; grep -q kept /mnt/volume/file; umount /mnt/volume
brick detach </tmp/a.json; ask cinder detach $A $INITIATOR >/dev/null
for id in $A $B; do ask cinder delete $id >/dev/null; done

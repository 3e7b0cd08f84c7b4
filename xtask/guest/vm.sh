# vm.sh - what runs in each virtual machine of `cargo xtask lab vms`, as its first process, from its own disk.
# The console speaks with xtask/src/vms.rs, which starts it, line by line: "VM WORDS" from here, a word to here.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
own=/var/lib/own
trap 'echo "VM failed at line $LINENO"; busybox poweroff -f' ERR
mount -t sysfs s /sys; mount -t tmpfs t /tmp
for x in fd: stdin:/0 stdout:/1 stderr:/2; do ln -sfn /proc/self/fd${x#*:} /dev/${x%:*}; done
/lib/systemd/systemd-udevd --daemon; udevadm trigger --action=add --subsystem-match=block
udevadm settle

# keep NAME BYTES: a file like no other, and its sum; both durable before this ends.
keep() {
  head -c "$2" /dev/urandom >"$own/$1"; sync "$own/$1"
  sha256sum "$own/$1" >>$own/sums; sync $own/sums $own
}
# Everything that was ever kept is read from the disk again.
intact() { sync; echo 3 >/proc/sys/vm/drop_caches; sha256sum --quiet -c $own/sums >&2; wc -l <$own/sums; }
end() { sync; mount -o remount,ro /; echo "VM $*"; busybox poweroff -f; }

if [ ! -e $own ]; then
  mount -o remount,rw /; mkdir $own
  keep first 2M; echo "VM up"
  {
    for n in 1 2 3; do keep $n 128K; done; echo "VM busy"
    while [ ! -e /tmp/enough ]; do keep $((n += 1)) 128K; sleep 1; done
  } & writer=$!
  read -r _ </dev/console
  touch /tmp/enough; wait $writer; keep last 1M
  kept=$(intact); end "verified $kept"
else
  # The root is mounted for reading alone, as it is whenever Linux checks it.
  e2fsck -fn /dev/vda >&2
  kept=$(intact); end "intact $kept"
fi

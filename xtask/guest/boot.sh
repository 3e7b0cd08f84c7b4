#!/bin/bash
# boot.sh - builds a small Debian guest once and boots it under QEMU for one script.
#   boot.sh build CACHE
#   boot.sh machines CACHE DIR       DIR/golden and DIR/initrd for machines with a disk each, which run vm.sh
#   boot.sh run CACHE DIR SECONDS    runs DIR/script in the guest; DIR/out and DIR/rc come back; DIR/disk is /dev/vdb
#                                    and DIR/nvme an NVMe drive, where they exist; with DIR/channel, DIR/agent is the socket of
#                                    a guest agent
# GUEST=peers: another guest, with other arrays and a kernel that has dm-vdo (6.9 and later), for `build` and `run`.
# GUEST=tls: a host with nvme-cli and tlshd, of Debian 13 (SUITE=trixie).
# GUEST=server: a Debian with systemd, on a disk that lasts for the run, and DIR/drive0 and so on as /dev/disk/by-id/virtio-lab-0;
# it boots again until DIR/rc exists (SUITE=trixie: of that suite), and is cut off, as by a power failure, when DIR/cut appears.
# The guest: root, bash, udevd, iscsid, multipathd to be started by hand; no system manager but there. The host's 127.0.0.1 is
# 10.0.2.2 there. DIR is /run/lab in the guest, read-write, which is also how a script asks the host for something.
# Emulated without KVM, so that it runs everywhere, and without VAES, which QEMU 7.2 computes wrongly; one processor, because that is what emulation is steady with.
set -euo pipefail

: "${SUITE:=bookworm}"
PACKAGES=busybox-static,kmod,udev,iproute2,procps,nftables,open-iscsi,sg3-utils,lsscsi,fio,e2fsprogs,util-linux
case ${GUEST:=hosts} in
  hosts) PACKAGES+=,linux-image-amd64,multipath-tools,xfsprogs,postgresql-15,sysbench,smartmontools,ddpt,qemu-guest-agent,python3 ;;
  server) PACKAGES+=,linux-image-amd64,systemd,systemd-sysv,dbus,multipath-tools,smartmontools,init-system-helpers,debconf ;;
  tls) PACKAGES+=,linux-image-amd64,nvme-cli,ktls-utils,keyutils ;;
  peers) PACKAGES+=,linux-image-amd64/$SUITE-backports,vdo/$SUITE-backports,tgt,libiscsi-bin,btrfs-progs,duperemove,qemu-utils,nvme-cli,python3 ;;
  *) echo "guest: there is no guest $GUEST" >&2; exit 125 ;;
esac
BOOT_MODULES="virtio_pci virtio_blk ext4 9pnet_virtio 9p"
LATER_MODULES="virtio_net iscsi_tcp sd_mod sg dm_multipath dm_round_robin dm_service_time scsi_dh_alua"
LATER_MODULES+=" xfs nf_tables nft_chain_nat nft_nat nft_masq nft_reject_inet nft_ct virtio_console af_packet nvme"
MARK=$(md5sum <<<"$SUITE $PACKAGES" | cut -c1-8)
IMAGE=root-$MARK.img KERNEL=vmlinuz-$MARK INITRD=initrd-$MARK

die() { echo "guest: $*" >&2; exit 125; }

# The mirror that this machine itself uses.
mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1
}

# The suites that the packages are of, as lines of a sources.list.
sources() {
  echo "deb $(mirror) $SUITE main"
  case $PACKAGES in *-backports*) echo "deb $(mirror) $SUITE-backports main" ;; esac
}

build() {
  local cache=$1 root=$1/root-$MARK version modules initrd=$1/initrd-$MARK.d
  [ -f "$cache/$IMAGE" ] && return
  [ "$(id -u)" = 0 ] || die "building the guest needs root"
  echo "guest: building the image, once" >&2
  mkdir -p "$cache"; rm -rf "$root" "$initrd"
  mmdebstrap --quiet --mode=root --variant=minbase --include="$PACKAGES" \
    --aptopt='APT::Install-Recommends "0"' --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/lib/*/libLLVM*' \
    --dpkgopt='path-exclude=/usr/lib/postgresql/*/lib/bitcode/*' "$SUITE" "$root" - <<<"$(sources)" >"$cache/build.log" 2>&1 ||
    die "mmdebstrap failed, see $cache/build.log"
  version=$(ls "$root/lib/modules"); modules=$root/lib/modules/$version
  (cd "$modules/kernel"; rm -rf sound drivers/{gpu,media,staging,usb,iio,hid,input,hwmon,isdn,bluetooth,platform} \
    drivers/{mtd,comedi,video,mmc,watchdog,i2c,ata,infiniband/hw,net/{ethernet,wireless,usb,can,wwan,phy}})
  find "$modules" -name '*.ko.xz' -print0 | xargs -0r xz -d; depmod -b "$root" "$version"
  cp "$root/boot/vmlinuz-$version" "$cache/$KERNEL"; rm -rf "$root"/boot/*
  mkdir -p "$initrd/m" "$initrd/bin"; cp "$root/bin/busybox" "$initrd/bin/"
  for module in $BOOT_MODULES; do modprobe -d "$root" -S "$version" --show-depends "$module"; done |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' |
    while read -r file; do cp "$file" "$initrd/m/"; basename "$file"; done >"$initrd/list"
  cat >"$initrd/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox; $b mkdir -p /proc /sys /dev /r; $b mount -t devtmpfs d /dev; $b mount -t proc p /proc
for m in $($b cat /list); do $b insmod /m/$m; done
$b mount -t ext4 /dev/vda /r; $b mount -t tmpfs t /r/run; $b mkdir /r/run/lab
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 lab /r/run/lab
for m in proc dev; do $b mount -o move /$m /r/$m; done
if $b grep -q lab=server /r/proc/cmdline; then
  units=/r/run/systemd/system; $b mkdir -p $units/multi-user.target.wants
  $b cp /r/run/lab/lab.service $units/; $b ln -s ../lab.service $units/multi-user.target.wants/lab.service
  exec $b switch_root /r /sbin/init
fi
exec $b switch_root /r /bin/bash /run/lab/init
INIT
  chmod +x "$initrd/init"; (cd "$initrd"; find . | cpio -o -H newc --quiet) >"$cache/$INITRD"
  truncate -s 1500M "$root.tmp"
  mkfs.ext4 -q -O ^has_journal -m 0 -d "$root" "$root.tmp"
  rm -rf "$root" "$initrd"; mv "$root.tmp" "$cache/$IMAGE"
}

guest_init() {
  cat <<INIT
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
mount -t sysfs s /sys; mkdir -p /dev/shm /run/lock; mount -t tmpfs s /dev/shm; mount -t tmpfs t /tmp
for x in fd: stdin:/0 stdout:/1 stderr:/2; do ln -sfn /proc/self/fd\${x#*:} /dev/\${x%:*}; done
hostname guest; ip link set lo up
modprobe -a $LATER_MODULES
ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2
/lib/systemd/systemd-udevd --daemon; udevadm trigger --action=add; udevadm settle
cd /tmp; setsid bash /run/lab/script </dev/null >/run/lab/out 2>&1; echo \$? >/run/lab/rc
busybox poweroff -f
INIT
}

# The root as a disk of its own, with a journal, and an init that is found after the other one in the archive.
machines() {
  local cache=$1 dir=$2
  build "$cache"
  cp --sparse=always "$cache/$IMAGE" "$dir/golden"; tune2fs -j "$dir/golden" >/dev/null
  mkdir -p "$dir/more"; cp "${0%/*}/vm.sh" "$dir/more/vm.sh"
  cat >"$dir/more/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox; $b mkdir -p /proc /dev /r; $b mount -t devtmpfs d /dev; $b mount -t proc p /proc
if $b grep -q vm=probe /proc/cmdline; then echo "VM probed"; $b poweroff -f; fi
for m in $($b cat /list); do $b insmod /m/$m; done
$b mount -t ext4 -o ro /dev/vda /r; $b mount -t tmpfs t /r/run; $b cp /vm.sh /r/run/
for m in proc dev; do $b mount -o move /$m /r/$m; done
exec $b switch_root /r /bin/bash /run/vm.sh
INIT
  chmod +x "$dir/more/init"
  (cat "$cache/$INITRD"; cd "$dir/more"; find . | cpio -o -H newc --quiet) >"$dir/initrd"
  rm -r "$dir/more"; ln -sf "$cache/$KERNEL" "$dir/vmlinuz"
}

# QEMU and APPEND: the machine and the kernel's command line, without disks.
machine() {
  local cache=$1 dir=$2 khz
  # The emulated clock is the host's: the kernel need not, and can't well, measure it.
  khz=$(awk -F: '/^cpu MHz/ { printf "%d", $2 * 1000; exit }' /proc/cpuinfo)
  APPEND="console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable ${khz:+tsc_early_khz=$khz} no_timer_check"
  APPEND+=" cryptomgr.notests net.ifnames=0 init_on_alloc=0 audit=0 apparmor=0"
  QEMU=(qemu-system-x86_64 -accel "tcg,thread=multi,tb-size=512" -cpu max,-vaes -M "pc,usb=off" -smp 1 -m 1536 -nodefaults
    -no-user-config -display none -no-reboot -kernel "$cache/$KERNEL" -initrd "$cache/$INITRD"
    -netdev "user,id=n,ipv6=off" -device "virtio-net-pci,netdev=n,romfile="
    -virtfs "local,path=$dir,mount_tag=lab,security_model=none,multidevs=remap")
}

run() {
  local cache=$1 dir=$2 seconds=$3 try disk=()
  build "$cache"
  guest_init >"$dir/init"
  machine "$cache" "$dir"
  [ -e "$dir/disk" ] && disk=(-drive "file=$dir/disk,format=raw,if=virtio,cache=unsafe,discard=unmap")
  [ -e "$dir/nvme" ] && disk+=(-drive "file=$dir/nvme,format=raw,if=none,id=nvme,cache=unsafe"
    -device nvme,drive=nvme,serial=lab-1)
  [ -e "$dir/channel" ] && disk+=(-chardev "socket,id=agent,path=$dir/agent,server=on,wait=off" -device virtio-serial
    -device "virtserialport,chardev=agent,name=org.qemu.guest_agent.0")
  for try in 1 2 3; do
    timeout -k 5 "$seconds" "${QEMU[@]}" -serial "file:$dir/serial" -append "$APPEND" \
      -drive "file=$cache/$IMAGE,format=raw,if=virtio,snapshot=on,cache=unsafe" "${disk[@]}" </dev/null 2>"$dir/qemu" || true
    [ -s "$dir/rc" ] && return
    [ -e "$dir/out" ] && die "no result: timed out after $seconds s or died, see $dir/serial"
    echo "guest: it did not start (try $try)" >&2
  done
  die "it does not start, see $dir/serial and $dir/qemu"
}

# Boots again until there is a result, from one disk.
serve() {
  local cache=$1 dir=$2 end=$((SECONDS + $3)) disk=() drive pid
  build "$cache"
  machine "$cache" "$dir"
  cp --sparse=always "$cache/$IMAGE" "$dir/root.img"; tune2fs -j "$dir/root.img" >/dev/null
  disk=(-drive "file=$dir/root.img,format=raw,if=none,id=root,cache=unsafe" -device virtio-blk-pci,drive=root)
  for drive in "$dir"/drive[0-9]; do
    disk+=(-drive "file=$drive,format=raw,if=none,id=d${drive##*/drive},cache=unsafe,discard=unmap"
      -device "virtio-blk-pci,drive=d${drive##*/drive},serial=lab-${drive##*/drive}")
  done
  [ -e "$dir/nvme" ] && disk+=(-drive "file=$dir/nvme,format=raw,if=none,id=nvme,cache=unsafe"
    -device nvme,drive=nvme,serial=lab-1)
  cat >"$dir/lab.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=idle
ExecStart=/bin/bash /run/lab/start
TimeoutStopSec=5
UNIT
  # A script that has asked for another start, by DIR/again, has no result yet.
  cat >"$dir/start" <<'START'
cd /root; bash /run/lab/script >>/run/lab/out 2>&1; code=$?
[ -e /run/lab/again ] || { journalctl -b -o cat -n 200 -u ashlard >/run/lab/journal; echo $code >/run/lab/rc; systemctl poweroff; }
START
  until [ -s "$dir/rc" ]; do
    rm -f "$dir/cut" "$dir/again"
    "${QEMU[@]}" "${disk[@]}" -serial "file:$dir/serial" -append "$APPEND lab=server" </dev/null 2>"$dir/qemu" & pid=$!
    while kill -0 $pid 2>/dev/null; do
      if [ -e "$dir/cut" ]; then kill -9 $pid; fi
      [ $SECONDS -lt $end ] || { kill -9 $pid; die "no result within the time, see $dir/serial and $dir/out"; }
      sleep 0.2
    done
    wait $pid || true
  done
}

case ${1:-} in
  build) build "$2" ;;
  machines) machines "$2" "$3" ;;
  run) if [ "$GUEST" = server ]; then serve "$2" "$3" "$4"; else run "$2" "$3" "$4"; fi ;;
  *) sed -n '2,8p' "$0"; exit 126 ;;
esac

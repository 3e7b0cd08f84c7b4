# The array beside what a Linux kernel has for the same: LIO on a raw device, LIO on dm-vdo, and tgt, all in this guest and
# emulated alike, with open-iscsi as the host of each. docs/benchmarks.md has the figures.
# Processor time is that of the whole guest less the load's own: initiator and target are kernel threads for half of them. What
# is written exceeds by far what the array may hold in memory, so that its flushing is in it; what it does when idle is not.
TARGETS="array lio vdo tgt" ROUNDS=3 SECONDS_EACH=10 SPAN=128m
GOLDEN=$((256 << 20)) CLONES=3
modprobe -a dm_mod dm_vdo btrfs target_core_mod target_core_iblock iscsi_target_mod
mount -t configfs c /sys/kernel/config

# piece NAME MIB: a part of the disk as a device of its own.
at=0
piece() { dmsetup create "$1" --table "0 $(($2 * 2048)) linear /dev/vdb $at"; at=$((at + $2 * 2048)); }
for n in 0 1 2 3; do piece "d$n" 1280; done
piece lio 1536; piece tgt 1536; piece btrfs 1536; piece pool 5120

port() { case $1 in array) echo 3260 ;; lio) echo 3261 ;; vdo) echo 3262 ;; tgt) echo 3263 ;; esac; }
name() { echo "iqn.2001-04.org.example:$1"; }

start_array() {
  ASHLAR_DATA=/tmp/array; export ASHLAR_DATA; : >/tmp/ready
  /run/lab/ashlard --data $ASHLAR_DATA --drive /dev/mapper/d0 --drive /dev/mapper/d1 --drive /dev/mapper/d2 \
    --drive /dev/mapper/d3 --iscsi "127.0.0.1:$(port array)" --write-memory 16MiB --read-memory 32MiB \
    --map-memory 64MiB --index-memory 64MiB >/tmp/ready 2>>/run/lab/ashlard.log &
  until_true 300 grep -q ready /tmp/ready
  ARRAY_IQN=$(sed 's/.*"target_iqn":"\([^"]*\)".*/\1/' /tmp/ready)
  ashlar host create guest --iqn "$(name guest)" >/dev/null
  ashlar volume create one --size 1536MiB >/dev/null; ashlar volume connect one --host guest --lun 0 >/dev/null
}
ashlar() { /run/lab/ashlar "$@"; }

# lio NAME DEVICE: a target of the kernel with this device as its only unit.
lio() {
  local target=/sys/kernel/config/target core portal
  core=$target/core/iblock_0/$1 portal=$target/iscsi/$(name "$1")/tpgt_1
  mkdir -p "$core" "$portal/lun/lun_0" "$portal/np/127.0.0.1:$(port "$1")"
  echo "udev_path=$2" >"$core/control"; echo 1 >"$core/enable"; echo "peer-$1" >"$core/wwn/vpd_unit_serial"; echo 1 >"$core/attrib/emulate_tpu"
  ln -s "$core" "$portal/lun/lun_0/disk"
  echo 0 >"$portal/attrib/authentication"; echo 0 >"$portal/attrib/demo_mode_write_protect"
  echo 1 >"$portal/attrib/generate_node_acls"; echo 1 >"$portal/attrib/cache_dynamic_acls"; echo 1 >"$portal/enable"
}
start_vdo() {
  vdoformat --force --uds-memory-size=0.25 --slab-bits=13 --logical-size=1536M /dev/mapper/pool >/tmp/vdo 2>&1 ||
    { cat /tmp/vdo; fail vdoformat; }
  local blocks=$(($(blockdev --getsz /dev/mapper/pool) / 8))
  dmsetup create vdo --table "0 $((1536 * 2048)) vdo V4 /dev/mapper/pool $blocks 4096 32768 16380 compression on"
}
start_tgt() {
  tgtd --iscsi "portal=127.0.0.1:$(port tgt)"; until_true 30 tgtadm --op show --mode sys >/dev/null
  tgtadm --lld iscsi --op new --mode target --tid 1 -T "$(name tgt)"
  tgtadm --lld iscsi --op new --mode logicalunit --tid 1 --lun 1 --bstype aio --backing-store /dev/mapper/tgt
  tgtadm --lld iscsi --op bind --mode target --tid 1 -I ALL
}

# load TARGET KIND OPTIONS: a line of /tmp/rounds: operations a second, mean latency in microseconds, processor time of
# an operation in microseconds, of all but fio.
load() {
  local target=$1 kind=$2 before after; shift 2
  before=$(busy)
  fio --name="$kind" --filename="$(device "$target")" --size=$SPAN --direct=1 --ioengine=libaio --iodepth=32 --bs=4k \
    --buffer_compress_percentage=50 --refill_buffers --minimal "$@" >/tmp/fio.out 2>&1 ||
    { cat /tmp/fio.out; fail "fio on $target"; }
  after=$(busy); settle
  awk -F';' -v name="$target-$kind" -v busy=$((after - before)) '{
    ops = ($6 + $47) / 4; own = ($88 + $89) / 100 * ($9 > $50 ? $9 : $50); iops = $8 + $49
    printf "%s %.0f %.0f %.1f\n", name, iops, ($8 * $40 + $49 * $81) / iops, (busy - own) * 1000 / ops
  }' /tmp/fio.out | tee -a /tmp/rounds
}
device() { cat "/tmp/device-$1"; }
# used TARGET: bytes that it holds for its hosts, parity not counted.
used() {
  case $1 in
    array) ashlar array status -o json | sed -n 's/^ *"physical": \([0-9]*\).*/\1/p' | head -n 1 ;;
    vdo) dmsetup status vdo | awk '{ printf "%.0f\n", $9 * 4096 }' ;;
    btrfs) sync; btrfs filesystem df -b /mnt/btrfs | sed 's/.*used=//' | awk '{ sum += $1 } END { printf "%.0f\n", sum }' ;;
  esac
}
# clones FILE: golden images, after the blocks that the loads used, each with a sixty-fourth of its blocks rewritten.
clones() {
  local n
  for n in $(seq $CLONES); do
    dd if=/dev/vda of="$1" bs=1M skip=64 seek=$((n * (GOLDEN >> 20))) count=$((GOLDEN >> 20)) iflag=direct conv=notrunc status=none
    fio --name=churn --filename="$1" --offset=$((n * GOLDEN)) --size=$GOLDEN --io_size=$((GOLDEN / 64)) --rw=randwrite --bs=4k \
      --ioengine=psync --buffer_compress_percentage=50 --refill_buffers --randseed="$n" --end_fsync=1 --minimal >/tmp/fio.out ||
      { cat /tmp/fio.out; fail "churn on $1"; }
  done
  sync
}
# timed NAME COMMAND: a line of /tmp/rounds, its milliseconds and those of the processor.
timed() {
  local name=$1 began before; shift; before=$(busy) began=$(date +%s%3N)
  "$@" >/tmp/timed.out 2>&1 || { cat /tmp/timed.out; fail "$name"; }
  echo "$name $(($(date +%s%3N) - began)) $(($(busy) - before))" | tee -a /tmp/rounds
}
# copy DEVICE: 64 MiB by EXTENDED COPY to 1 GiB, in commands of 4 MiB as ESXi sends them.
copy() {
  local bytes; bytes=$(blockdev --getss "$1")
  sg_xcopy if="$1" of="$1" bs="$bytes" count=$(((64 << 20) / bytes)) skip=$((GOLDEN / bytes)) seek=$(((1 << 30) / bytes)) bpt=$(((4 << 20) / bytes))
}
zero() { blkdiscard --zeroout --offset $((1 << 30)) --length $((64 << 20)) "$1"; }

start_array; say "the array runs"
start_vdo; lio lio /dev/mapper/lio; lio vdo /dev/mapper/vdo; start_tgt; say "LIO, dm-vdo and tgt run"
initiator "$(name guest)"
for target in $TARGETS; do
  PORT_A=$(port "$target") IQN=$(name "$target") lun=0
  [ "$target" = array ] && IQN=$ARRAY_IQN
  [ "$target" = tgt ] && lun=1
  discover >/dev/null
  # All have one emulated processor: a late answer to a ping says nothing.
  set_node 'node.conn[0].timeo.noop_out_interval' 0; set_node 'node.conn[0].timeo.noop_out_timeout' 0
  login "$PORT_A"; disk "$PORT_A" $lun >"/tmp/device-$target"
  say "$target: $(device "$target"), blocks of $(blockdev --getss "$(device "$target")")"
done

say "4 KiB, random, 32 outstanding, durable when answered; $ROUNDS rounds of $SECONDS_EACH s each in turn"
for target in $TARGETS; do load "$target" fill --rw=write --bs=64k; done
for round in $(seq $ROUNDS); do
  for target in $TARGETS; do
    load "$target" write --rw=randwrite --sync=dsync --time_based=1 --runtime=$SECONDS_EACH --randseed="$round"
    load "$target" read --rw=randread --time_based=1 --runtime=$SECONDS_EACH --randseed="$round"
  done
done

say "$CLONES copies of $((GOLDEN >> 20)) MiB of this system, a sixty-fourth of each rewritten"
declare -A took
mkdir -p /mnt/btrfs; mkfs.btrfs -q /dev/mapper/btrfs >/dev/null 2>&1; mount -o compress=zstd /dev/mapper/btrfs /mnt/btrfs
for target in array vdo; do
  before=$(used $target); timed $target-clones clones "$(device $target)"; settle; took[$target]=$(($(used $target) - before))
done
clones /mnt/btrfs/disk; took[zstd]=$(used btrfs)
timed duperemove duperemove -dhr /mnt/btrfs; took[btrfs]=$(used btrfs)
qemu-img convert -c -O qcow2 -o compression_type=zstd /mnt/btrfs/disk /run/lab/qcow2; took[qcow2]=$(stat -c %s /run/lab/qcow2); rm /run/lab/qcow2
for kind in array vdo zstd btrfs qcow2; do say "$kind: ${took[$kind]} bytes for $((CLONES * GOLDEN))"; done

say "64 MiB by EXTENDED COPY, and as zeros"
for round in $(seq $ROUNDS); do
  for target in array lio vdo; do timed $target-copy copy "$(device $target)"; timed $target-zero zero "$(device $target)"; done
  timed tgt-zero zero "$(device tgt)"
done
tell story "All targets in one emulated guest with one processor, open-iscsi as the host of each; $ROUNDS rounds in turn. Processor" \
  "time is the guest's less the load's, while it runs: the array's work when idle is not in it. Emulation makes vector instructions, of which" \
  "checksums, parity and compression consist, tens of times more expensive: the array's times are upper bounds, ratios of space are not touched."
columns() { local target; for target in $1; do echo "$target=$(rounds "$target-$2" "$3")"; done; }
row() { local of; mapfile -t of < <(columns "$3" "$4" "$5"); figure "$1" "$2" "${of[@]}"; }
row "4 KiB random writes, 32 outstanding, durable" 1/s "$TARGETS" write 2
row "processor time of a write" µs "$TARGETS" write 4
row "4 KiB random reads, 32 outstanding" 1/s "$TARGETS" read 2
row "processor time of a read" µs "$TARGETS" read 4
row "64 MiB by EXTENDED COPY" ms "array lio vdo" copy 2
row "64 MiB of zeros by the host's BLKZEROOUT" ms "$TARGETS" zero 2
ratio() { awk -v a=$((CLONES * GOLDEN)) -v b="${took[$1]}" 'BEGIN { printf "%.2f", a / b }'; }
figure "$CLONES clones of $((GOLDEN >> 20)) MiB, 1/64 of each rewritten: written to stored" ":1" \
  "array=$(ratio array)" "vdo=$(ratio vdo)" "btrfs zstd=$(ratio zstd)" "with duperemove=$(ratio btrfs)" "qcow2 zstd=$(ratio qcow2)"
tell note "dm-vdo's index has 0.25 GB of memory, the array's 64 MiB. duperemove works after the fact, with its own 128 KiB blocks."

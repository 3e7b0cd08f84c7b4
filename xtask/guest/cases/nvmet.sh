# Cost of cached reads beside the kernel's own NVMe/TCP target, in one guest with one processor, which host and target share. The
# kernel's target has a disk of memory, without reduction or checksums of data.
modprobe -a dm_mod nvme_tcp nvmet nvmet_tcp
modprobe brd rd_nr=1 rd_size=$((64 << 10))
NQN=nqn.2014-08.org.nvmexpress:uuid:7a3f0c5e-1f3b-4e55-9d0e-5c2b7f9a1d10
export ASHLAR_DATA=/tmp/array
for n in 0 1 2 3; do dmsetup create "d$n" --table "0 $((512 * 2048)) linear /dev/vdb $((n * 512 * 2048))"; done
: >/tmp/ready
/run/lab/ashlard --data $ASHLAR_DATA --drive /dev/mapper/d0 --drive /dev/mapper/d1 --drive /dev/mapper/d2 --drive /dev/mapper/d3 \
  --iscsi 127.0.0.1:3260 --nvme 127.0.0.1:4420 --write-memory 64MiB --read-memory 128MiB --map-memory 64MiB --index-memory 32MiB \
  >/tmp/ready 2>>/run/lab/ashlard.log &
until_true 300 grep -q ready /tmp/ready
ashlar() { /run/lab/ashlar "$@"; }
ashlar host create guest --nqn $NQN >/dev/null
ashlar volume create data --size 64MiB >/dev/null; ashlar volume connect data --host guest --lun 0 >/dev/null
ours=$(ashlar array status -o json | sed -n 's/.*"subsystem_nqn": *"\([^"]*\)".*/\1/p')

say "the kernel's target"
mountpoint -q /sys/kernel/config || mount -t configfs c /sys/kernel/config
target=/sys/kernel/config/nvmet theirs=nqn.2026-11.lab:nvmet
mkdir -p $target/subsystems/$theirs/namespaces/1 $target/ports/1
echo 1 >$target/subsystems/$theirs/attr_allow_any_host
echo /dev/ram0 >$target/subsystems/$theirs/namespaces/1/device_path; echo 1 >$target/subsystems/$theirs/namespaces/1/enable
for it in trtype=tcp adrfam=ipv4 traddr=127.0.0.1 trsvcid=4421; do echo "${it#*=}" >"$target/ports/1/addr_${it%%=*}"; done
ln -s $target/subsystems/$theirs $target/ports/1/subsystems/$theirs

# disk_of PORT NQN: connects, and names the disk.
disk_of() {
  echo "transport=tcp,traddr=127.0.0.1,trsvcid=$1,nqn=$2,hostnqn=$NQN,hostid=${NQN##*:},nr_io_queues=1" >/dev/nvme-fabrics
  until_true 30 named "$2"; named "$2"
}
named() { # NQN
  local subsystem disk
  for subsystem in /sys/class/nvme-subsystem/nvme-subsys*; do
    [ "$(cat "$subsystem/subsysnqn")" = "$1" ] || continue
    for disk in "$subsystem"/nvme*n1; do [ -b "/dev/${disk##*/}" ] && echo "/dev/${disk##*/}" && return; done
  done
  return 1
}
a=$(disk_of 4420 "$ours" | tail -n 1) b=$(disk_of 4421 $theirs | tail -n 1)
udevadm settle
for device in "$a" "$b"; do
  verify "$device" 8m
  fio --name=fill --filename="$device" --direct=1 --ioengine=libaio --iodepth=8 --rw=write --bs=64k --size=16m --buffer_compress_percentage=50 --minimal >/dev/null
done

SECONDS_EACH=5 ROUNDS=7
# load TARGET DEVICE DEPTH: a line of /tmp/rounds: reads a second, mean latency in microseconds, and the processor time of a read in
# microseconds, of all but fio.
load() {
  local target=$1 before; settle
  before=$(busy)
  fio --name=load --filename="$2" --direct=1 --ioengine=libaio --iodepth="$3" --rw=randread --bs=4k --size=16m --time_based=1 \
    --runtime=$SECONDS_EACH --randrepeat=0 --minimal >/tmp/fio.out 2>&1 || { cat /tmp/fio.out; fail "fio on $target"; }
  awk -F';' -v name="$target-$3" -v busy=$(($(busy) - before)) '{
    reads = $6 / 4; own = ($88 + $89) / 100 * $9
    printf "%s %.0f %.0f %.1f\n", name, $8, $40, (busy - own) * 1000 / reads
  }' /tmp/fio.out | tee -a /tmp/rounds
}
# least NAME: of its rounds. The clock of an emulated processor runs on while the machine does something else, which only adds.
least() { rounds "$1" 4 | tr ' ' '\n' | sed '/^$/d' | sort -n | head -n 1; }

tell story "Both targets in one emulated guest with one processor, one I/O queue of the kernel's host to each; $ROUNDS rounds in turn. Processor" \
  "time is the guest's less fio's: the host's part, the same for both, is in it. What else the machine does adds to it."
for depth in 32 1; do
  say "4 KiB random reads at depth $depth: reads a second, microseconds of latency, and of the processor for a read"
  for round in $(seq $ROUNDS); do load array "$a" $depth; load nvmet "$b" $depth; done
  for target in array nvmet; do
    [ "$(rounds "$target-$depth" 4 | wc -w)" = $ROUNDS ] || fail "a round is missing"
  done
  say "$(awk -v a="$(least "array-$depth")" -v b="$(least "nvmet-$depth")" \
    'BEGIN { printf "least: array %s µs, nvmet %s µs, %.2f times the processor time for a read", a, b, a / b }')"
  for row in "2 1/s 4 KiB random reads, $depth outstanding" "3 µs mean latency at $depth" "4 µs processor time of a read at $depth"; do
    read -r field unit what <<<"$row"
    figure "$what" "$unit" "array=$(rounds "array-$depth" "$field")" "nvmet=$(rounds "nvmet-$depth" "$field")"
  done
done
say "done"

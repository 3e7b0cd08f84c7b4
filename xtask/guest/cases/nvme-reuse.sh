# The kernel's NVMe/TCP host while the number of a namespace that it writes to is given to another volume: in no order of events
# does a write reach the other volume.
SUBSYSTEM=nqn.2026-11.io.ashlar:${IQN##*:}
modprobe -a nvme_fabrics nvme_tcp
HOSTID=7a3f0c5e-1f3b-4e55-9d0e-5c2b7f9a1d10

connect() { # PORT NQN OPTIONS
  echo "transport=tcp,traddr=10.0.2.2,trsvcid=$1,nqn=$2,hostnqn=$HOSTNQN,hostid=$HOSTID,nr_io_queues=1${3:-}" >/dev/nvme-fabrics
}
states() { cat /sys/class/nvme-fabrics/ctl/nvme*/state | sort | tr '\n' ' '; }
live() { [ "$(states)" = "live live " ]; }

connect "$NVME_A" "$SUBSYSTEM"
connect "$NVME_B" "$SUBSYSTEM"
until_true 60 has 2; until_true 30 live

say "another volume gets the number of one that the guest writes to: no write reaches it"
identity() { cat "/sys/block/${1##*/}/wwid"; }
is_heir() { local now; now=$(namespace 21) && [ "$(identity "$now")" != "$former" ]; }
is_written() { [ "$(ask mapped late)" -gt 0 ]; }
# writer DEVICE: writes to the open device for good, whatever becomes of it.
writer() {
  python3 - "$1" <<'PY' &
import mmap, os, sys, time
block = mmap.mmap(-1, 65536)
block.write(b"\xaa" * 65536)
device, at = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT), 0
while True:
    try:
        os.pwrite(device, block, at)
    except OSError:
        time.sleep(0.001)
    at = (at + 65536) % (64 << 20)
PY
  writers+=" $!"
}
reset() {
  local controller
  for controller in /sys/class/nvme/nvme*/reset_controller; do
    [ "$(cat "${controller%/*}/transport")" = tcp ] && echo 1 >"$controller"
  done
}
ask cli volume create heir --size 64MiB >/dev/null
# The other volume is connected at once, after the guest has seen the end of the former one, after the array has started
# again, and while the guest resets its controllers.
for order in at-once seen restart reset; do
  say "order: $order"
  ask cli volume connect late --host nvme --lun 20 >/dev/null
  until_true 60 has 21; udevadm settle
  late=$(namespace 21) former=$(identity "$(namespace 21)") writers=
  for n in 1 2 3 4; do writer "$late"; done
  until_true 30 is_written
  ask cli volume disconnect late --host nvme >/dev/null
  case $order in seen) until_true 30 lacks 21 ;; restart) ask restart ;; esac
  ask cli volume connect heir --host nvme --lun 20 >/dev/null
  if [ $order = reset ]; then reset; fi
  until_true 120 is_heir; until_true 120 live; udevadm settle
  cmp -n $((64 << 20)) "$(namespace 21)" /dev/zero || fail "a write reached the other volume"
  [ "$(ask mapped heir)" = 0 ] || fail "the other volume holds $(ask mapped heir) bytes"
  kill -9 $writers; wait $writers 2>/dev/null || true
  ask cli volume disconnect heir --host nvme >/dev/null
  until_true 60 lacks 21
  ask cli volume delete late --eradicate --yes >/dev/null
  ask cli volume create late --size 64MiB >/dev/null
done
say "done"

# Two controllers share drives without Ceph. The drives are volumes of the array outside, and each daemon reaches them as an initiator
# of its own name, so that it has a nexus of its own to every drive, as two servers have to a drive with two ports. A host with
# dm-multipath over both daemons writes and verifies while the home is killed, is frozen and resumed, and is stopped and drained.
modprobe -a dm_mod
SHELF=$IQN IQN_HOST=iqn.2001-04.org.example:guest DRIVES=5
# The folder that is shared with the host is slow to run from.
cp /run/lab/ashlard /run/lab/ashlar /tmp/

# The drives as two servers see them.
initiator $IQN_HOST
for server in 1 2; do
  iscsiadm -m iface -I "server$server" --op new >/dev/null
  iscsiadm -m iface -I "server$server" --op update -n iface.initiatorname -v "iqn.2001-04.org.example:server$server" >/dev/null
  iscsiadm -m node -T "$SHELF" -p "127.0.0.1:$PORT_A" -I "server$server" --op new >/dev/null
  # Nothing but an unreachable array ends these sessions.
  iscsiadm -m node -T "$SHELF" -I "server$server" --op update -n 'node.conn[0].timeo.noop_out_timeout' -v 60
  iscsiadm -m node -T "$SHELF" -p "127.0.0.1:$PORT_A" -I "server$server" --login >/dev/null
done
# drive SERVER N: a drive as a server sees it.
drive() {
  local at; at=$(iscsiadm -m session -P 3 | awk -v name="server$1" '/Iface Name:/ { own = $3 == name } own && /Host Number:/ { print $3 }')
  ls -d "/sys/bus/scsi/devices/$at:0:0:$2/block/"* 2>/dev/null | sed 's,.*/,/dev/,'
}
there() { [ -b "$(drive "$@")" ]; }
declare -A drives
for server in 1 2; do
  for n in $(seq 0 $((DRIVES - 1))); do
    until_true 60 there "$server" "$n"
    drives[$server]+="--drive $(drive "$server" "$n") "
  done
done

memory="--write-memory 32MiB --read-memory 16MiB --map-memory 32MiB --index-memory 16MiB"
# daemon N OPTIONS: becomes controller N, or what the options say. Its data folder, ports and drives are its own.
daemon() {
  local n=$1; shift
  # shellcheck disable=SC2086
  exec /tmp/ashlard --data "/tmp/c$n" ${drives[$n]} --iscsi "127.0.0.1:326$n" --api "127.0.0.1:844$n" $memory "$@"
}
log() { echo "/tmp/log$1"; }
# start N OPTIONS: a process; its number is pid[N].
declare -A pid
start() { local n=$1; daemon "$@" >>"/tmp/ready$n" 2>>"$(log "$n")" & pid[$n]=$!; }
ashlar() { /tmp/ashlar --data "/tmp/c$1" "${@:2}"; }
state() { ashlar "$1" controller list 2>/dev/null | awk -v n="$2" '$1 == n { print $0 }'; }
is() { state "$1" "$2" | grep -qw "$3"; }
ended() { ! kill -0 "$1" 2>/dev/null; }
# Where things are when a case fails.
trap 'tail -n 40 /tmp/log1 /tmp/log2 2>/dev/null' EXIT

# write_and_verify MIB: writes a part of the disk at a rate that leaves time for everything else, and reads it again.
write_and_verify() {
  fio --name=verify --filename="$map" --direct=1 --ioengine=libaio --iodepth=4 --rw=randwrite --bsrange=4k-16k --size="$1m" \
    --rate_iops=200,20 --verify=crc32c --verify_fatal=1 --do_verify=1 --minimal >/tmp/fio.out 2>&1 ||
    { cat /tmp/fio.out; fail "fio on $map"; }
}

say "an array of one server becomes shared"
start 1
until_true 300 grep -q '"ready":true' /tmp/ready1
kill -TERM "${pid[1]}"; wait "${pid[1]}"
: >/tmp/ready1
start 1 --controller 1 --link 127.0.0.1:8451
until_true 300 grep -q '"ready":true' /tmp/ready1
ashlar 1 volume create data --size 256MiB >/dev/null
ashlar 1 host create host --iqn $IQN_HOST >/dev/null
ashlar 1 volume connect data --host host --lun 0 >/dev/null
token=$(ashlar 1 controller add -o json | sed -n 's/.*"token": "\(.*\)".*/\1/p')
start 2 --join "$token" --link 127.0.0.1:8452
until_true 300 is 1 2 standby
ashlar 1 controller list

# What the daemons share is not for the host.
wwids=$(for n in $(seq 0 $((DRIVES - 1))); do echo "  wwid \"$(/lib/udev/scsi_id -g -u -d "$(drive 1 "$n")")\""; done)
{ paths_in_turns 120; cat <<CONF; } >/etc/multipath.conf
blacklist {
$wwids
  devnode "^vd"
  device {
    vendor ".*"
    product ".*"
  }
}
blacklist_exceptions {
  device {
    vendor "ASHLAR"
    product ".*"
  }
}
CONF
IQN=$(iscsiadm -m discovery -I default -t sendtargets -p 127.0.0.1:3261 | awk '{ print $2 }' | head -n 1)
set_node node.session.timeo.replacement_timeout 2
# Everything is emulated on one processor: a path is slow before it is dead.
set_node 'node.conn[0].timeo.noop_out_interval' 5
set_node 'node.conn[0].timeo.noop_out_timeout' 20
login 3261; login 3262
multipathd; until_true 300 sh -c 'multipathd show maps raw format "%w" 2>/dev/null | grep -q .'
map=/dev/mapper/$(multipathd show maps raw format '%w' | head -n 1)
until_true 300 test -b "$map"
until_true 300 active 2
multipath -ll
write_and_verify 2

# under_load HOME OTHER COMMAND: the host writes and verifies while something happens to the home.
under_load() {
  write_and_verify 12 & load=$!
  sleep 5; "${@:3}"
  until_true 300 is "$2" "$2" home
  wait $load || fail "the host has lost data, or got an error"
}

say "the home is killed"
killed() { kill -KILL "${pid[1]}"; wait "${pid[1]}" || true; }
under_load 1 2 killed
start 1 --controller 1 --link 127.0.0.1:8451
until_true 300 is 2 1 standby
until_true 300 active 2

say "the home is frozen for 60 s, and resumed"
frozen() { kill -STOP "${pid[2]}"; }
under_load 2 1 frozen
sleep 60
kill -CONT "${pid[2]}"; until_true 300 ended "${pid[2]}"
wait "${pid[2]}" && fail "the former home ended as if nothing had happened"
tail -n 5 "$(log 2)"
write_and_verify 2
start 2 --controller 2 --link 127.0.0.1:8452
until_true 300 is 1 2 standby
until_true 300 active 2

say "the home is drained, then stopped"
drained() { ashlar 1 controller drain 1; }
under_load 1 2 drained
until_true 300 is 2 1 standby
ashlar 2 controller resume 1 >/dev/null
stopped() { kill -TERM "${pid[2]}"; }
under_load 2 1 stopped
wait "${pid[2]}" || fail "a stop in order ended with an error"
write_and_verify 2
ashlar 1 controller show 1

say "drives are refused to who does not share them, and to a second server with a number that is taken"
# shellcheck disable=SC2086
if /tmp/ashlard --data /tmp/c3 ${drives[2]} --iscsi 127.0.0.1:3263 --api 127.0.0.1:8443 --controller 1 >/tmp/out 2>&1; then
  fail "it runs with the number of the home"
fi
grep -q "is running already" /tmp/out || { cat /tmp/out; fail "another reason"; }
# shellcheck disable=SC2086
if /tmp/ashlard --data /tmp/c3 ${drives[2]} --iscsi 127.0.0.1:3263 --api 127.0.0.1:8443 >/tmp/out 2>&1; then
  fail "it runs without --controller"
fi
grep -q "start ashlard with --controller" /tmp/out || { cat /tmp/out; fail "another reason"; }

say "everything is as it should be on the drives"
for port in 3261 3262; do logout $port || true; done
kill -TERM "${pid[1]}"; wait "${pid[1]}"
# shellcheck disable=SC2086
/tmp/ashlard check --data /tmp/c1 ${drives[1]}
for n in $(seq 0 $((DRIVES - 1))); do
  sg_persist --no-inquiry --in --read-reservation "$(drive 1 "$n")" | grep -q "Write Exclusive, registrants only" || fail "not reserved"
done
trap - EXIT

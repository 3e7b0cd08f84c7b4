# Fibre Channel through the kernel's target core: the array runs in the guest, its volumes are devices of TCMU, and the loopback
# fabric makes them disks of this machine, one nexus for each WWPN of a host. Then LIO's iSCSI target is in front of two of the
# devices, so that libiscsi's tests run against the array's SCSI core through TCMU; and a disk comes by frames of Fibre Channel
# over Ethernet.
modprobe dm_mod
PORT=21000024ff000001 FRAMES=20:00:02:00:00:00:00:f1 ONE=21000024ff0000a1 TWO=21000024ff0000a2
export ASHLAR_DATA=/tmp/array
ports=$PORT@loopback
core=/sys/kernel/config/target
for n in 0 1 2 3; do dmsetup create "d$n" --table "0 $((512 * 2048)) linear /dev/vdb $((n * 512 * 2048))"; done

# daemon OPTIONS: becomes the array.
daemon() {
  exec /run/lab/ashlard --data $ASHLAR_DATA --drive /dev/mapper/d0 --drive /dev/mapper/d1 --drive /dev/mapper/d2 --drive /dev/mapper/d3 \
    --iscsi 127.0.0.1:3260 --write-memory 32MiB --read-memory 32MiB --map-memory 64MiB --index-memory 32MiB "$@"
}
start() {
  : >/tmp/ready
  daemon --fc "$ports" >/tmp/ready 2>>/run/lab/ashlard.log &
  array=$!
  until_true 300 grep -q ready /tmp/ready
}
stop() { kill "-$1" "$array"; wait "$array" || true; }
ashlar() { /run/lab/ashlar "$@"; }

# address INITIATOR: host, channel and target of its disks. device INITIATOR LUN: such a disk.
address() {
  local group
  for group in "$core/loopback/fc.$PORT"/tpgt_*; do
    if [ "$(cat "$group/nexus" 2>/dev/null)" = "$1" ]; then cat "$group/address"; return; fi
  done
  return 1
}
device() { local at; at=$(address "$1") && ls -d "/sys/bus/scsi/devices/$at:$2/block/"* 2>/dev/null | sed 's,.*/,/dev/,'; }
there() { [ -b "$(device "$1" "$2")" ]; }
gone() { ! there "$@"; }
timed_out() { [ $(($(cat "/sys/block/${1#/dev/}/device/iotmo_cnt"))) -gt 0 ]; }
sized() { [ "$(blockdev --getsize64 "$1")" = "$2" ]; }
devices() { [ "$(ls -d $core/core/user_1000/*/ | wc -l)" = "$1" ]; }
refused() { ! "$@" >/dev/null 2>&1; }
# holds EXPRESSION: true in Python of `it`, the JSON that comes in. sessions HOST EXPRESSION: the same of the list of its sessions,
# where `unit(LUN)` is the device of a LUN, or empty, and `at(FABRIC)` the session at the port of a fabric. counts HOST NUMBER: it
# has as many sessions.
holds() {
  python3 -c 'import json, sys
it = json.load(sys.stdin)
def unit(lun):
    return next((unit for session in it for unit in session["devices"] if unit["lun"] == lun), {})
def at(fabric):
    return next(session for session in it if session["fabric"] == fabric)
sys.exit(not eval(sys.argv[1]))' "$1"
}
sessions() { ashlar host fibre-channel-sessions --host "$1" -o json | holds "$2"; }
counts() { ashlar host show "$1" -o json | holds "it['fibre_channel_sessions'] == $2"; }

say "what is missing is named"
if (daemon --fc "$PORT@loopback" >/tmp/ready 2>/tmp/refused); then fail "it runs without the target core"; fi
grep -Eq 'mount -t configfs|modprobe target_core_user' /tmp/refused || { cat /tmp/refused; fail "no advice"; }
modprobe -a target_core_user configfs
mountpoint -q /sys/kernel/config || mount -t configfs c /sys/kernel/config
if (daemon --fc "$PORT@qla2xxx" >/tmp/ready 2>/tmp/refused); then fail "it runs without the fabric"; fi
grep -q 'modprobe tcm_qla2xxx' /tmp/refused || { cat /tmp/refused; fail "no advice"; }
modprobe tcm_loop

say "disks of two initiators"
start
ashlar host create one --wwpn 21:00:00:24:ff:00:00:a1 >/dev/null
ashlar host create two --wwpn 0x$TWO >/dev/null
ashlar volume create data --size 512MiB >/dev/null
ashlar volume create native --size 64MiB --block-size 4096 >/dev/null
ashlar volume connect data --host one --lun 0 >/dev/null
ashlar volume connect data --host two --lun 0 >/dev/null
ashlar volume connect native --host one --lun 300 >/dev/null
until_true 60 there $ONE 0; until_true 60 there $TWO 0; until_true 60 there $ONE 300
a=$(device $ONE 0) other=$(device $TWO 0) native=$(device $ONE 300)
lsscsi -gs
gone $TWO 300 || fail "an initiator sees what it is not connected to"
sg_inq "$a" | grep -q 'ASHLAR' || fail "another INQUIRY"
naa() { tr -d "\0" <"/sys/block/${1#/dev/}/device/wwid" | tr A-Z a-z; }
say "names: $(naa "$a") $(naa "$other") $(naa "$native")"
[ "$(naa "$a")" = "$(naa "$other")" ] && [ "$(naa "$a")" != "$(naa "$native")" ] || fail "names"
ashlar volume show data -o json | grep -q "$(naa "$a")" || fail "another name than the array shows"
sg_vpd -p di "$a" | grep -q "transport: Fibre Channel" || fail "a port of another protocol"
sg_vpd -p di "$a" | grep -q "0x$PORT" || fail "the target port has no name"
[ "$(blockdev --getss "$native")" = 4096 ] && [ "$(blockdev --getsize64 "$a")" = $((512 << 20)) ] || fail "sizes"

say "file systems, and data that are read back"
mkfs.ext4 -q "$a"; mkfs.ext4 -q -b 4096 "$native"; mkdir -p /mnt/a; mount "$a" /mnt/a
head -c $((24 << 20)) /dev/urandom >/mnt/a/data; sum=$(sha256sum </mnt/a/data); sync
umount /mnt/a; e2fsck -fn "$native" >/dev/null 2>&1 || fail "fsck"
verify "$native" 24m

say "sessions of the hosts"
until_true 30 counts one 1; until_true 30 counts two 1
sessions one "[session['logged_in'] for session in it] == [True]" || fail "one has no session"
sessions one "unit(300)['volume'] == 'native' and unit(300)['served'] and unit(300)['commands'] > 0" || fail "a device without commands"
sessions two "unit(0) and not unit(300)" || fail "a device of another host"
sessions one "it[0]['link'] is None" || fail "the loopback fabric has a link"

say "UNMAP, WRITE SAME, COMPARE AND WRITE, EXTENDED COPY"
ashlar volume create raw --size 256MiB >/dev/null; ashlar volume create target --size 256MiB >/dev/null
ashlar volume connect raw --host one --lun 5 >/dev/null; ashlar volume connect target --host one --lun 6 >/dev/null
until_true 60 there $ONE 5; until_true 60 there $ONE 6
raw=$(device $ONE 5) target=$(device $ONE 6)
same() { cmp -s <(dd if="$1" bs=512 skip="$2" count=$(($3 / 512)) iflag=direct status=none) <(head -c "$3" "$4"); }
head -c 512 /dev/urandom >/tmp/block; head -c $((8 << 20)) /dev/urandom >/tmp/data
dd if=/tmp/data of="$raw" bs=1M oflag=direct status=none
sg_unmap --lba=8 --num=8 "$raw"; same "$raw" 8 4096 /dev/zero || fail "UNMAP"
sg_write_same --16 --lba=1000 --num=2000 --xferlen=512 --in=/tmp/block "$raw"
same "$raw" 2999 512 /tmp/block || fail "WRITE SAME"
sg_write_same --16 --unmap --lba=4096 --num=4096 --xferlen=512 --in=/dev/zero "$raw"; same "$raw" 4096 $((2 << 20)) /dev/zero || fail "unmapped"
{ cat /tmp/block; head -c 512 /dev/zero; } >/tmp/caw
sg_compare_and_write --in=/tmp/caw --lba=1000 --num=1 --xferlen=1024 "$raw"; same "$raw" 1000 512 /dev/zero || fail "COMPARE AND WRITE"
refused sg_compare_and_write --in=/tmp/caw --lba=1000 --num=1 --xferlen=1024 "$raw" || fail "no miscompare"
sg_xcopy if="$raw" of="$target" bs=512 count=8192 bpt=2048 >/dev/null 2>&1 || fail "EXTENDED COPY"
cmp <(head -c 4M "$raw") <(head -c 4M "$target") || fail "the copy differs"

say "reservations between two initiators"
out() { sg_persist --no-inquiry --out "$@" >/dev/null; }
out --register --param-sark=0xa1 "$a"; out --register --param-sark=0xb2 "$other"
out --reserve --param-rk=0xa1 --prout-type=1 "$a"
sg_persist --no-inquiry --in --read-full-status "$a" | grep -q '21 00 00 24 ff 00 00 a1' || fail "no TransportID of Fibre Channel"
dd if=/tmp/data of="$a" bs=4k count=1 seek=100 oflag=direct status=none
refused dd if=/tmp/data of="$other" bs=4k count=1 seek=100 oflag=direct || fail "no conflict"
dd if="$other" of=/dev/null bs=4k count=1 iflag=direct status=none
out --release --param-rk=0xa1 --prout-type=1 "$a"; out --clear --param-rk=0xa1 "$a"
until_true 10 sg_turs "$other"; dd if="$other" of=/dev/null bs=4k count=1 iflag=direct status=none

say "a reset of the unit is noticed by the other initiator"
until_true 10 sg_turs "$other"; sg_reset --device "$a"
{ sg_turs --verbose "$other" 2>&1 || true; } | grep -qi 'reset function occurred' || fail "no unit attention"
grep -q 'task management.*function=5' /run/lab/ashlard.log || fail "the reset did not come by the ring"

say "a command that takes too long is aborted, and the array serves on"
echo 3 >"/sys/block/${raw#/dev/}/device/timeout"
kill -STOP "$array"; dd if="$raw" of=/dev/null bs=4k count=1 iflag=direct status=none & reader=$!
until_true 60 timed_out "$raw"
kill -CONT "$array"; wait $reader || fail "the read was not repeated"
until_true 30 grep -q 'task management.*function=1' /run/lab/ashlard.log
sessions one "unit(5)['volume'] == 'raw' and unit(5)['aborted'] > 0" || fail "no aborted command is counted"
echo 30 >"/sys/block/${raw#/dev/}/device/timeout"

say "restarts while a host writes"
load() {
  fio --name=load --filename="$raw" --direct=1 --ioengine=libaio --iodepth=8 --rw=randwrite --bsrange=4k-32k --size=64m --rate_iops=60 \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --minimal >/tmp/load.out 2>&1
}
load & loading=$!
for signal in TERM KILL; do
  sleep 3; stop $signal; sleep 2; start; say "started again after $signal"
  until_true 60 sg_turs "$raw"
done
wait $loading || { cat /tmp/load.out; fail "the host saw an error"; }
[ "$(device $ONE 5)" = "$raw" ] || fail "the disk is another one"
mount "$a" /mnt/a; [ "$(sha256sum </mnt/a/data)" = "$sum" ] || fail "other data"; umount /mnt/a

say "another size, and connections that end"
ashlar volume resize target --size 384MiB >/dev/null; echo 1 >"/sys/block/${target#/dev/}/device/rescan"
until_true 30 sized "$target" $((384 << 20))
ashlar volume disconnect raw --host one >/dev/null; ashlar volume disconnect data --host two >/dev/null
until_true 60 gone $ONE 5; until_true 60 gone $TWO 0
until_true 60 devices 3
there $ONE 0 || fail "another disk is gone"

say "LIO's iSCSI target in front of the devices of two initiators"
modprobe iscsi_target_mod
ashlar volume create suite --size 1GiB >/dev/null
front=iqn.2001-04.org.example:front; group=$core/iscsi/$front/tpgt_1
mkdir -p "$group/np/127.0.0.1:3261"
initiator=iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test
for n in 3 4; do
  ashlar host create "host$n" --wwpn "21000024ff0000a$n" >/dev/null; ashlar volume connect suite --host "host$n" --lun 0 >/dev/null
  until_true 60 there "21000024ff0000a$n" 0
  unit=$group/lun/lun_$n acl=$group/acls/$initiator$([ $n = 3 ] || echo -2)
  mkdir -p "$unit" "$acl/lun_0"
  ln -s "$(echo $core/core/user_1000/*-21000024ff0000a$n-$PORT-0-*)" "$unit/front"; ln -s "$unit" "$acl/lun_0/front"
done
echo 0 >"$group/attrib/authentication"; echo 1 >"$group/enable"
url=iscsi://127.0.0.1:3261/$front/0
# outcomes LOG: a line for each test of a family.
outcomes() {
  awk '/^ *Test: / { name = $2; skip = 0 } /SKIPPED/ { skip = 1 } !name { next }
    /\.\.\.passed/ || /^passed$/ { print skip ? "skipped" : "passed", name; name = "" } /FAILED$/ { print "failed", name; name = "" }' "$1"
}
families="TestUnitReady Inquiry ReadCapacity16 Read10 Read16 Write10 Write16 WriteSame16 Unmap CompareAndWrite ExtendedCopy"
families+=" ReceiveCopyResults ModeSense6 ReportSupportedOpcodes PrinReadKeys PrinReportCapabilities ProutRegister ProutReserve ProutPreempt Reserve6"
for family in $families; do
  timeout -k 5 120 iscsi-test-cu "--test=ALL.$family" -d -S -g -v "$url" "$url" >/tmp/suite.log 2>&1 || true
  outcomes /tmp/suite.log | sed "s/ / $family./" >/tmp/outcomes
  [ -s /tmp/outcomes ] || { cat /tmp/suite.log; fail "$family did not run"; }
  awk -v f="$family" '{ n[$1]++ } END { printf "%-26s %3d passed %3d failed %3d skipped\n", f, n["passed"], n["failed"], n["skipped"] }' /tmp/outcomes
  cat /tmp/outcomes >>/tmp/all
done
# The ring says nothing of logins and logouts, so a nexus outlives the session of its initiator: a RESERVE of SCSI-2 stays, and
# so does the status of a copy of the program before. WSNZ is 1 (xtask/conformance-reasons.txt). LIO does not perform target
# resets of an iSCSI initiator unless it is configured to.
cat >/tmp/expected <<EXPECTED
failed ReceiveCopyResults.CopyStatus
failed Reserve6.ITNexusLoss
failed Reserve6.Logout
skipped Reserve6.TargetColdReset
skipped Reserve6.TargetWarmReset
skipped WriteSame16.ZeroBlocks
EXPECTED
grep -v ^passed /tmp/all | sort | diff /tmp/expected - || fail "other outcomes than expected"
[ "$(grep -c ^passed /tmp/all)" -gt 80 ] || fail "too few tests ran"

say "frames of Fibre Channel over a pair of network interfaces"
# Two ports of this machine without a switch (VN2VN): one is the array's, the other the host's. The kernel makes their WWPNs of
# the addresses. The host's port appears last, so that it finds the target when it logs in.
modprobe -a veth fcoe tcm_fc
ip link add v0 address 02:00:00:00:00:a5 type veth peer name v1 address 02:00:00:00:00:f1
for n in v0 v1; do ip link set $n mtu 3000 up; done
echo v1 >/sys/module/libfcoe/parameters/create_vn2vn
ports+=,$FRAMES@fc; stop TERM; start
ashlar host create frames --wwpn 20:00:02:00:00:00:00:a5 >/dev/null
ashlar volume create framed --size 128MiB >/dev/null; ashlar volume connect framed --host frames --lun 2 >/dev/null
until_true 60 test -d "$core/fc/$FRAMES/tpgt_1/acls/20:00:02:00:00:00:00:a5/lun_2"
until_true 30 sessions frames "unit(2)"
sessions frames "not at('fc')['logged_in']" || fail "a session of a host that has not logged in"
echo v0 >/sys/module/libfcoe/parameters/create_vn2vn
framed() { lsscsi -t | sed -n "s,.* fcoe:0x${FRAMES//:/}.* \(/dev/sd[a-z]*\).*,\1,p"; }
seen() { [ -b "$(framed)" ]; }
until_true 60 seen; sg_inq "$(framed)" | grep -q ASHLAR || fail "another disk"
verify "$(framed)" 8m
# The loopback port has a nexus for each initiator.
until_true 60 sessions frames "at('fc')['logged_in']"; until_true 60 counts frames 2
sessions frames "at('fc')['link']['state'] == 'Online'" || { ashlar host fibre-channel-sessions -o json; fail "no link"; }
stop TERM; start; verify "$(framed)" 2m

say "devices of an array that does not come back are removed without it, and nothing else"
list() { /run/lab/ashlard fibre-channel list | tee /tmp/devices; }
list; serial=$(awk 'NR == 2 { print $1 }' /tmp/devices)
grep -q ' yes$' /tmp/devices || fail "no device is served"
refused /run/lab/ashlard fibre-channel remove "$serial" || fail "devices of an array that runs were removed"
stop KILL
mkdir "$core/core/user_1000/stranger"; echo dev_config=foreign/x,dev_size=1048576 >"$core/core/user_1000/stranger/control"
list; ! grep -q ' yes$' /tmp/devices || fail "a device is served after the end of the array"
! grep -q stranger /tmp/devices || fail "a foreign device is listed"
dd if="$a" of=/dev/null bs=4k count=1 iflag=direct status=none & reader=$!
refused /run/lab/ashlard fibre-channel remove "$serial" || fail "LIO's target lost its devices"
echo 0 >"$group/enable"
for n in 3 4; do
  unit=$group/lun/lun_$n acl=$group/acls/$initiator$([ $n = 3 ] || echo -2)
  rm "$acl/lun_0/front"; rmdir "$acl/lun_0"; rm "$unit/front"; rmdir "$unit"
done
/run/lab/ashlard fibre-channel remove "$serial"
! wait $reader || fail "a read of a disk without its array succeeded"
gone $ONE 0 || fail "the disk is still there"
[ "$(list | wc -l)" = 1 ] || fail "devices are left"
[ -d "$core/core/user_1000/stranger" ] || fail "a foreign device was removed"
rmdir "$core/core/user_1000/stranger"
# The array makes them again when it does come back.
start; until_true 60 there $ONE 0
mount "$(device $ONE 0)" /mnt/a
[ "$(sha256sum </mnt/a/data)" = "$sum" ] || fail "other data"; umount /mnt/a

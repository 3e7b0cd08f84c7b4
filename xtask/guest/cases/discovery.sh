# open-iscsi finds both portals, logs in, and sees its own LUNs with their own numbers and nothing else.
initiator iqn.2001-04.org.example:guest
discover | sort >/tmp/found
printf '127.0.0.1:%s,1 %s\n' "$PORT_A" "$IQN" "$PORT_B" "$IQN" | sort >/tmp/wanted
sed 's/,[0-9]* / /' /tmp/found | diff - <(sed 's/,[0-9]* / /' /tmp/wanted) || fail "SendTargets: $(cat /tmp/found)"
login "$PORT_A"
lsscsi -s
[ "$(lsscsi | grep -c ASHLAR)" = 3 ] || fail "three LUNs are mapped"
[ "$(blockdev --getsize64 "$(disk "$PORT_A" 1)")" = $((512 << 20)) ] || fail "size of LUN 1"
[ "$(blockdev --getss "$(disk "$PORT_A" 1)")" = 512 ] || fail "block length of LUN 1"
[ "$(blockdev --getss "$(disk "$PORT_A" 7)")" = 4096 ] || fail "block length of LUN 7"
# Linux shows flat addressing as it is on the wire.
far=$(lsscsi | awk -v address=":$((0x4000 | 300))]" 'index($1, address) { print $NF }')
[ -b "$far" ] || fail "LUN 300"
verify "$far" 4m
sg_inq --id "$(disk "$PORT_A" 1)" | grep -q NAA || fail "no NAA designator"
sg_vpd --page=lbpv "$(disk "$PORT_A" 1)" | grep -q 'Unmap command supported (LBPU): 1' || fail "not thin"
sg_rtpg --decode "$(disk "$PORT_A" 1)" | grep -qi 'active/optimized' || fail "target port group state"

say "a LUN that is mapped later appears, one that is unmapped goes away, the new size of one that grows is seen"
ask cli volume connect late --host guest --lun 9 >/dev/null
iscsiadm -m session --rescan >/dev/null; udevadm settle
[ -b "$(disk "$PORT_A" 9)" ] || fail "LUN 9 did not appear"
ask cli volume resize small --size 1GiB >/dev/null
iscsiadm -m session --rescan >/dev/null; udevadm settle
until_true 10 test "$(blockdev --getsize64 "$(disk "$PORT_A" 1)")" = $((1 << 30))
ask cli volume disconnect late --host guest >/dev/null
sg_turs "$(disk "$PORT_A" 9)" 2>/dev/null && fail "LUN 9 still answers"
logout "$PORT_A"

say "an initiator that the array does not know may not log in"
initiator iqn.2001-04.org.example:stranger
if login "$PORT_A" 2>/dev/null; then fail "a stranger logged in"; fi

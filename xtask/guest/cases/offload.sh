# Commands that move or drop blocks without moving data, and persistent reservations, by sg3-utils.
initiator iqn.2001-04.org.example:guest
discover >/dev/null; login "$PORT_A"; login "$PORT_B"
a=$(disk "$PORT_A" 0); b=$(disk "$PORT_A" 1); other=$(disk "$PORT_B" 0)
head -c 8M /dev/urandom >/tmp/data
dd if=/tmp/data of="$a" bs=1M oflag=direct status=none
same() { cmp -n "$3" <(dd if="$1" bs=512 skip="$2" iflag=direct status=none) "$4" || fail "$1 at $2 differs"; }

say "EXTENDED COPY between units and within one"
sg_xcopy if="$a" of="$b" bs=512 count=16384 skip=0 seek=8192 --on_dst >/tmp/xcopy 2>&1 || { cat /tmp/xcopy; fail sg_xcopy; }
same "$b" 8192 $((8 << 20)) /tmp/data
sg_xcopy if="$a" of="$a" bs=512 count=4096 skip=3 seek=20001 >/tmp/xcopy 2>&1 || { cat /tmp/xcopy; fail sg_xcopy; }
same "$a" 20001 $((2 << 20)) <(tail -c +1537 /tmp/data)
[ "$(ask mapped b)" = $((8 << 20)) ] || fail "b holds $(ask mapped b)"
sg_copy_results --params "$a" | grep -q 'Maximum segment length' || fail "operating parameters"

say "UNMAP and WRITE SAME"
sg_unmap --lba=8192 --num=8192 --force "$b"
same "$b" 8192 $((4 << 20)) /dev/zero
[ "$(ask mapped b)" = $((4 << 20)) ] || fail "b holds $(ask mapped b) after UNMAP"
head -c 512 /dev/urandom >/tmp/block
sg_write_same --16 --lba=1000 --num=2000 --xferlen=512 --in=/tmp/block "$b"
same "$b" 1000 512 /tmp/block; same "$b" 2999 512 /tmp/block; same "$b" 3000 512 /dev/zero
sg_write_same --16 --unmap --lba=16384 --num=8192 --xferlen=512 --in=/dev/zero "$b"
same "$b" 16384 $((4 << 20)) /dev/zero
sg_write_same --10 --lba=0 --num=1 --xferlen=512 --in=/tmp/block "$b"; same "$b" 0 512 /tmp/block
sg_write_same --16 --ndob --lba=0 --num=1 "$b"; same "$b" 0 512 /dev/zero
sg_get_lba_status --lba=0 "$b" >/dev/null

say "COMPARE AND WRITE"
{ cat /tmp/block; head -c 512 /dev/zero; } >/tmp/caw
sg_compare_and_write --in=/tmp/caw --lba=1000 --num=1 --xferlen=1024 "$b"
same "$b" 1000 512 /dev/zero
if sg_compare_and_write --in=/tmp/caw --lba=1000 --num=1 --xferlen=1024 "$b" 2>/tmp/miscompare; then fail "no miscompare"; fi

say "persistent reservations over two paths and a restart"
key() { sg_persist --no-inquiry --in --read-keys "$a" | grep -c "0x$1" || true; }
out() { sg_persist --no-inquiry --out "$@"; }
out --register --param-sark=0xa1 --param-aptpl "$a"
out --register --param-sark=0xb2 --param-aptpl "$other"
[ "$(key a1)" = 1 ] && [ "$(key b2)" = 1 ] || fail "keys"
out --reserve --param-rk=0xa1 --prout-type=1 "$a"
dd if=/tmp/data of="$a" bs=4k count=1 oflag=direct status=none
if dd if=/tmp/data of="$other" bs=4k count=1 oflag=direct status=none 2>/dev/null; then fail "no conflict"; fi
dd if="$other" of=/dev/null bs=4k count=1 iflag=direct status=none
ask crash
until_true 60 sg_turs "$a"; until_true 60 sg_turs "$other"
[ "$(key a1)" = 1 ] && [ "$(key b2)" = 1 ] || fail "keys are gone after a restart"
sg_persist --no-inquiry --in --read-reservation "$a" | grep -q 'Key=0xa1' || fail "the reservation is gone"
if dd if=/tmp/data of="$other" bs=4k count=1 oflag=direct status=none 2>/dev/null; then fail "no conflict"; fi
out --preempt --param-rk=0xb2 --param-sark=0xa1 --prout-type=3 "$other"
[ "$(key a1)" = 0 ] || fail "the preempted key is there"
dd if=/tmp/data of="$other" bs=4k count=1 oflag=direct status=none
if dd if="$a" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null; then fail "no conflict"; fi
out --release --param-rk=0xb2 --prout-type=3 "$other"
out --clear --param-rk=0xb2 "$other"
until_true 10 sg_turs "$a"
dd if=/tmp/data of="$a" bs=4k count=1 oflag=direct status=none

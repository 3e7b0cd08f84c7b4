# Copies by tokens (SBC-4 5.9 and 5.51, "ODX" in Windows), by ddptctl, which knows nothing of this array. What Debian has of
# it, 0.97, puts ranges into the parameter lists one byte too early, at 15 and 535: addresses and lengths arrive as 256
# times what was meant. So they are counted in units of 256 blocks here, and `ddpt`, which counts what comes back, can't be used.
initiator iqn.2001-04.org.example:guest
discover >/dev/null; login "$PORT_A"; login "$PORT_B"
a=$(disk "$PORT_A" 0); b=$(disk "$PORT_A" 1); native=$(disk "$PORT_A" 2); hidden=$(disk "$PORT_A" 3); other=$(disk "$PORT_B" 1)
UNIT=$((256 * 512)) GIB=8192   # bytes of a unit, units of a gibibyte
same() { cmp -n "$3" <(dd if="$1" bs=$UNIT skip="$2" iflag=direct status=none) "$4" || fail "$1 at $2 differs"; }
put() { dd if="$1" of="$2" bs=$UNIT seek="$3" oflag=direct conv=notrunc status=none; }
control() { ddptctl "$@" >/tmp/ddptctl 2>&1 || { cat /tmp/ddptctl; fail "ddptctl $*"; }; }
# refused TEXT WORDS: ddptctl fails with these words, and says so by that text of sense data.
refused() {
  local text=$1; shift
  if ddptctl -v "$@" >/tmp/refused 2>&1; then cat /tmp/refused; fail "not refused: $*"; fi
  grep -qi "$text" /tmp/refused || { cat /tmp/refused; fail "refused by other words than $text: $*"; }
}
part() { dd if=/tmp/data bs=$UNIT skip="$1" count="$2" status=none; }
head -c 8M /dev/urandom >/tmp/data; head -c 1M /dev/urandom >/tmp/more; head -c 1M /dev/urandom >/tmp/end

say "what the unit offers"
control --info "$a"
for what in 'Populate token' 'Write using token' 'Report all ROD tokens' 'point in time copy - default' 'block device zero'; do
  grep -q "$what" /tmp/ddptctl || { cat /tmp/ddptctl; fail "no $what"; }
done

say "a whole volume of 64 GiB, with data at its ends and in between"
put /tmp/data "$a" 0; put /tmp/more "$a" $((40 * GIB + 1)); put /tmp/end "$a" $((64 * GIB - 8)); put /tmp/data "$b" $((20 * GIB))
begin=$(date +%s%N)
for at in 0 16 32 48; do
  control --pt=$((at * GIB)),$((16 * GIB)) --rtf=/tmp/token "$a"
  control --wut=$((at * GIB)),$((16 * GIB)) --rtf=/tmp/token "$b"
done
say "64 GiB took $((($(date +%s%N) - begin) / 1000000)) ms in this emulated guest"
same "$b" 0 $((8 << 20)) /tmp/data; same "$b" $((40 * GIB + 1)) $((1 << 20)) /tmp/more
same "$b" $((64 * GIB - 8)) $((1 << 20)) /tmp/end; same "$b" $((20 * GIB)) $((8 << 20)) /dev/zero
[ "$(ask mapped a)" = "$(ask mapped b)" ] || fail "a holds $(ask mapped a), b $(ask mapped b)"

say "zeros by their token, and commands that return before their end"
{ printf '\xff\xff\x00\x01\x00\x00\x01\xf8'; head -c 504 /dev/zero; } >/tmp/zeros   # SPC-5 6.36.2
control --wut=3,7 --rtf=/tmp/zeros "$b"
same "$b" 3 $((7 * UNIT)) /dev/zero; same "$b" 10 $UNIT <(part 10 1); same "$b" 2 $UNIT <(part 2 1)
control --pt=0,64 --immed --list_id=500 "$a"; control --poll --list_id=500 --rtf=/tmp/token "$a"
control --wut=0,64 --immed --list_id=501 --rtf=/tmp/token "$b"; control --poll --list_id=501 "$b"
same "$b" 0 $((8 << 20)) /tmp/data

say "a token is the data of its moment, gathered, scattered, and of any path"
control --pt=16,10,50,3,1,1 --list_id=300 --rtf=/tmp/token "$a"
head -c 8M /dev/zero >/tmp/zero; put /tmp/zero "$a" 0
control --info --rtf=/tmp/token; control --all_toks "$a"
control --wut=$GIB,3,7,11 --rtf=/tmp/token "$other"
{ part 16 10; part 50 3; part 1 1; } >/tmp/gathered
same "$b" $GIB $((3 * UNIT)) <(head -c $((3 * UNIT)) /tmp/gathered)
same "$b" 7 $((11 * UNIT)) <(tail -c $((11 * UNIT)) /tmp/gathered)
control --pt=16,10,50,3,1,1 --rtf=/tmp/token "$a"
control --wut=$GIB,14 --rtf=/tmp/token "$b"; same "$b" $GIB $((14 * UNIT)) /dev/zero
put /tmp/data "$a" 0

say "tokens that are refused, and write nothing"
control --pt=0,4 --rtf=/tmp/token "$a"
for at in 20 60 200 500; do
  cp /tmp/token /tmp/forged
  if [ "$(od -An -tx1 -j $at -N 1 /tmp/token)" = ' 5a' ]; then other_byte='\xa5'; else other_byte='\x5a'; fi
  printf "$other_byte" | dd of=/tmp/forged bs=1 seek=$at conv=notrunc status=none
  refused token --wut=0,16 --rtf=/tmp/forged "$b"
done
control --wut=0,4 --del_tkn --rtf=/tmp/token "$b"
refused 'token deleted' --wut=0,4 --rtf=/tmp/token "$b"
refused 'out of range' --pt=$((64 * GIB)),1 --rtf=/tmp/none "$a"
control --pt=0,4 --rtf=/tmp/token "$hidden"
refused token --wut=0,4 --rtf=/tmp/token "$native"
ask cli volume disconnect hidden --host guest >/dev/null
refused 'token revoked' --wut=0,4 --rtf=/tmp/token "$b"
same "$b" 0 $((4 * UNIT)) <(part 0 4)
refused . --abort --list_id=77 "$a"

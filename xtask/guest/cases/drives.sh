# The array itself runs in the guest, on drives that the device-mapper makes fail, hang, lag, lie and lose writes, while
# a host writes and verifies: no error reaches it, nothing that was answered is lost, and the timeline says what it felt.
# Drives are pieces of /dev/vdb. dm-dust is in no Debian kernel: sectors that can't be read are a piece of dm-error.
modprobe -a dm_mod dm_flakey dm_delay
DRIVES=8 SPARE=8
sectors=$((384 * 2048))
export ASHLAR_DATA=/tmp/array PORT_A=3260

# become N KIND [WORDS]: what a drive is from now on. What it has under way is answered first.
become() {
  local at=$(($1 * sectors)) bad=$((sectors / 2)) range=65536 table
  case $2 in
    well) table="0 $sectors linear /dev/vdb $at" ;;
    dead) table="0 $sectors error" ;;
    # Sectors of a piece in the middle can't be read or written.
    scratched) table="0 $bad linear /dev/vdb $at
$bad $range error
$((bad + range)) $((sectors - bad - range)) linear /dev/vdb $((at + bad + range))" ;;
    # Added latency of reads and writes, in milliseconds.
    slow) table="0 $sectors delay /dev/vdb $at $3" ;;
    # Fails for a second in every four.
    unsteady) table="0 $sectors flakey /dev/vdb $at 3 1" ;;
    # Says that it has written, synced even, and has not.
    lying) table="0 $sectors flakey /dev/vdb $at 0 3600 1 drop_writes" ;;
    # A byte of everything that is read is another.
    garbling) table="0 $sectors flakey /dev/vdb $at 0 3600 5 corrupt_bio_byte 100 r 1 0" ;;
  esac
  if [ -e "/dev/mapper/d$1" ]; then
    dmsetup load "d$1" --table "$table"; hang "$1"; answer "$1"
  else
    dmsetup create "d$1" --table "$table"
  fi
}
hang() { dmsetup suspend --noflush --nolockfs "d$1"; }
answer() { dmsetup resume "d$1"; }

# start: the array on its drives, and on the spare as soon as that was added.
start() {
  local words=() n
  for n in $(seq 0 $((DRIVES - 1))); do words+=(--drive "/dev/mapper/d$n"); done
  : >/tmp/ready
  /run/lab/ashlard --data $ASHLAR_DATA "${words[@]}" --iscsi 127.0.0.1:$PORT_A --write-memory 64MiB \
    --read-memory 32MiB --map-memory 64MiB --index-memory 32MiB >/tmp/ready 2>>/run/lab/ashlard.log &
  array=$!
  until_true 300 grep -q ready /tmp/ready
}
ashlar() { /run/lab/ashlar "$@"; }
# figure NAME: a number of `drive status`, and that of the last scrub.
figure() { sed -n "s/^  \"$1\": \([0-9]*\),\{0,1\}$/\1/p" /tmp/status; }
scrubbed() { sed -n "s/^    \"$1\": \([0-9]*\),\{0,1\}$/\1/p" /tmp/status; }
status() { ashlar drive status -o json >/tmp/status; }
# slot N STANDING: the slot where a drive is that, if there is one.
slot() { ashlar drive list | awk -v path="/d$1" -v what="$2" 'index($2 "\n", path "\n") && $3 == what { print $1 }'; }

EVENTS=/tmp/events
now() { date +%s%3N; }
began=$(now)
mark() { echo "$(now) $*" >>$EVENTS; say "$*"; }
is_out() { [ -z "$(slot "$1" in)" ]; }
is_gone() { ! ashlar drive list | grep -q "/d$1 "; }
is_protected() { status; [ "$(figure tolerates) $(figure segments_at_risk) $(figure lost)" = "2 0 0" ]; }
protected() {
  until_true 600 is_protected
  mark "  protected again; since the start $(figure healed) segments rebuilt, $(figure repaired) pages repaired"
}
# calm: some seconds in which nothing happens, to be compared with.
calm() { sleep 5; }
# array_of N: the array whose label a drive has, in the words of the array that refuses to overwrite it.
array_of() { ashlar drive add "/dev/mapper/d$1" 2>&1 | sed -n 's/.*--take-from-array \([0-9a-f]\{32\}\).*/\1/p'; }
# joins N...: drives that were out become members again, as if they were new. A label is there when the drive could not be
# notified that it is no member any more.
joins() {
  local n array words
  for n in "$@"; do
    become "$n" well; array=$(array_of "$n"); words=(--force)
    [ -z "$array" ] || words+=(--take-from-array "$array")
    ashlar drive list | grep -q "/d$n .*in use" || ashlar drive add "${words[@]}" "/dev/mapper/d$n" >/dev/null; mark "  drive $n is added again"
  done
  calm
}

# gather: drives that are out become members again. On a busy machine the emulated one may stand still for so long that one
# of them is taken to be gone.
gather() {
  local n
  for n in $(seq 0 $((DRIVES - 1))); do if is_out "$n"; then joins "$n"; fi; done
}

# load NAME OPTIONS: writes and verifies on a volume until /tmp/enough is there.
load() {
  local name=$1 pass=0; shift
  while [ ! -e /tmp/enough ]; do
    fio --name="$name" --direct=1 --ioengine=libaio --rw=randwrite --bsrange=4k-32k --size=8m --rate_iops=40 \
      --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=$((pass += 1)) --write_lat_log="/tmp/$name.$pass" \
      --log_unix_epoch=1 --minimal "$@" >"/tmp/$name.out" 2>&1 ||
      { cat "/tmp/$name.out"; say "FAILED: $name, pass $pass: a host saw an error"; return 1; }
  done
  echo "$pass" >"/tmp/$name.passes"
}

# timeline: what the loads were answered in, second by second, with what happened in between.
timeline() {
  cat /tmp/mixed.*_lat.*.log /tmp/passes.*_lat.*.log | python3 -c '
import sys
began, answers = int(sys.argv[1]), {}
for line in sys.stdin:
  time, nanoseconds, *_ = line.split(",")
  answers.setdefault((int(time) - began) // 1000, []).append(int(nanoseconds) / 1e6)
events = [(int(time) - began, what) for time, what in (line.rstrip("\n").split(" ", 1) for line in open(sys.argv[2]))]
print("   s  answers   p50 ms   p99 ms   max ms")
for second in range(min(answers), max(answers) + 1):
  for at, what in [event for event in events if event[0] // 1000 == second]: print(f"{at / 1000:8.1f}  {what}")
  took = sorted(answers.get(second, []))
  rank = lambda part: took[min(len(took) - 1, int(len(took) * part))]
  if took: print(f"{second:4}  {len(took):7}  {rank(.5):7.1f}  {rank(.99):7.1f}  {took[-1]:7.1f}")
  else: print(f"{second:4}        0")
' "$began" $EVENTS
}

# rot N...: flips a bit in one of a hundred pages of drives that were ever written, below the readers.
rot() {
  python3 - "$sectors" "$@" <<'PY'
import os, random, sys
size, flipped = int(sys.argv[1]) * 512, 0
random.seed(1)
disk = os.open("/dev/vdb", os.O_RDWR)
for drive in map(int, sys.argv[2:]):
  # After the label in front, and before the one at the end.
  pages = range(drive * size // 4096 + 16, (drive + 1) * size // 4096 - 1)
  for page in random.sample(pages, len(pages) // 100):
    bytes = bytearray(os.pread(disk, 4096, page * 4096))
    if not any(bytes): continue
    bytes[random.randrange(4096)] ^= 1 << random.randrange(8)
    os.pwrite(disk, bytes, page * 4096); flipped += 1
os.fsync(disk)
print(flipped)
PY
  blockdev --flushbufs /dev/vdb
}
scrub() {
  ashlar drive scrub --wait >/dev/null; status
  echo "scrub: $(scrubbed errors) pages wrong, $(scrubbed repaired) repaired, $(scrubbed lost) lost"
}

for n in $(seq 0 $SPARE); do become "$n" well; done
start; say "the array runs"
IQN=$(sed 's/.*"target_iqn":"\([^"]*\)".*/\1/' /tmp/ready)
ashlar host create guest --iqn iqn.2001-04.org.example:guest >/dev/null
for volume in 0:still 1:mixed 2:passes; do
  ashlar volume create "${volume#*:}" --size 32MiB >/dev/null
  ashlar volume connect "${volume#*:}" --host guest --lun "${volume%:*}" >/dev/null
done
initiator iqn.2001-04.org.example:guest
discover >/dev/null; set_node node.session.timeo.replacement_timeout 600
# One emulated processor for the array and its host: a late answer to a ping says nothing.
set_node 'node.conn[0].timeo.noop_out_interval' 0; set_node 'node.conn[0].timeo.noop_out_timeout' 0
login $PORT_A; say "the host is logged in"
still=$(disk $PORT_A 0)
head -c 32M /dev/urandom | dd of="$still" bs=1M oflag=direct iflag=fullblock status=none
look() { dd if="$still" bs=1M iflag=direct status=none | md5sum; }
sum=$(look); say "32 MiB are written that stay as they are"
unchanged() { [ "$(look)" = "$sum" ] || fail "what was written at first changed"; }

load mixed --filename="$(disk $PORT_A 1)" --iodepth=4 --verify_backlog=64 & mixed=$!
load passes --filename="$(disk $PORT_A 2)" --iodepth=4 & passes=$!
calm; status; mark "before: eight drives, $(figure segments) segments"; calm; calm

mark "two drives fail at the same moment (dm-error), each with a copy of the journal"
become 0 dead & become 1 dead; wait $!
until_true 60 is_out 0; until_true 60 is_out 1; protected; unchanged; joins 0 1

gather
mark "one drive hangs (suspended) and one fails at the same moment"; hang 2; become 3 dead
until_true 120 is_out 2; until_true 60 is_out 3; protected; answer 2; joins 2 3

gather
mark "one drive takes 300 ms longer (dm-delay)"; become 4 slow 300
sleep 15; become 4 well; mark "  and is well again"; calm

gather
mark "two drives lose all that they are given from now on (dm-flakey drop_writes), synced or not"
become 5 lying; become 6 lying; calm
mark "the power fails: all drives stop, then the array is killed"
for n in $(seq 0 $SPARE); do hang "$n"; done
kill -9 $array
for n in $(seq 0 $SPARE); do dmsetup load "d$n" --table "0 $sectors error"; answer "$n"; done
wait $array || true
for n in $(seq 0 $SPARE); do become "$n" well; done
start; mark "  it is back"; gather; protected; unchanged; mark "  what they had lost: $(scrub)"; calm

mark "bits of two drives rot: $(rot 5 6) pages"; mark "  $(scrub)"; mark "  once more, $(scrub)"; calm

gather
mark "one drive fails for a second in every four (dm-flakey), another can't read or write 32 MiB of it"
become 7 unsteady; become 0 scratched
until_true 120 is_out 7; protected; become 0 well; joins 7; gather

mark "a drive that garbles what it reads (dm-flakey corrupt_bio_byte) is replaced"; become 1 garbling
ashlar drive replace "$(slot 1 in)" --yes --with "/dev/mapper/d$SPARE" >/dev/null
until_true 600 is_gone 1; protected; unchanged; calm
mark "an NVMe drive reports its health by smartctl, and takes part in the rest"
ashlar drive add /dev/nvme0n1 >/dev/null
is_known() { ashlar drive show "$(ashlar drive list | awk '/nvme0n1/ { print $1 }')" >/tmp/nvme && grep -q 'QEMU NVMe' /tmp/nvme; }
until_true 120 is_known; grep -E 'Health|Model|Serial|Temperature|Media errors' /tmp/nvme
grep -q 'Health.*passed' /tmp/nvme || fail "the drive's own verdict is not known"
calm
mark "the end"

touch /tmp/enough
wait $mixed || fail "a host saw an error"
wait $passes || fail "a host saw an error"
unchanged
figures=$(scrub); say "$figures"
[ "$figures" = "scrub: 0 pages wrong, 0 repaired, 0 lost" ] || fail "the scrub found something at the end"
if dmesg | grep -E 'I/O error, dev sd|FAILED Result'; then fail "the host's kernel saw errors"; fi
logout $PORT_A
timeline
say "verified $(cat /tmp/mixed.passes) and $(cat /tmp/passes.passes) times 8 MiB: no error reached the host, nothing is lost"
kill $array; wait $array || fail "the array did not end well"
words=(); for n in $(seq 0 $SPARE); do words+=(--drive "/dev/mapper/d$n"); done
words+=(--drive /dev/nvme0n1)
/run/lab/ashlard check --data $ASHLAR_DATA "${words[@]}"

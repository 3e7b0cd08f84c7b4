# Row G18: a raw disk against a file on a file system's disk, both of the array, in turn.
ROUNDS=10 SECONDS_EACH=4 SIZE=128m
initiator iqn.2001-04.org.example:guest
discover >/dev/null; login "$PORT_A"
raw=$(disk "$PORT_A" 0); mkdir -p /mnt/fs
mkfs.ext4 -q "$(disk "$PORT_A" 1)"; mount "$(disk "$PORT_A" 1)" /mnt/fs

load() { # NAME FILE OPTIONS: IOPS and mean latency in microseconds, of reads and writes together
  fio --name="$1" --filename="$2" --size=$SIZE --direct=1 --ioengine=libaio --iodepth=8 --minimal "${@:3}" >/tmp/fio.out 2>&1 ||
    { cat /tmp/fio.out; fail "fio on $2"; }
  awk -F';' '{ iops = $8 + $49; printf "%.0f %.0f\n", iops, ($8 * $40 + $49 * $81) / iops }' /tmp/fio.out
}
# udev looks at a disk each time a writer closes it: the guest's only processor would be taken from the raw disk alone.
udevadm control --stop-exec-queue
for file in "$raw" /mnt/fs/disk; do load fill "$file" --rw=write --bs=256k --buffer_compress_percentage=50 >/dev/null; done
for round in $(seq $ROUNDS); do
  [ $((round % 2)) = 1 ] && kinds="raw file" || kinds="file raw"
  for kind in $kinds; do
    [ $kind = raw ] && file=$raw || file=/mnt/fs/disk
    words=$(load $kind "$file" --rw=randrw --rwmixread=70 --bs=8k --time_based=1 --runtime=$SECONDS_EACH --randseed=$round)
    say "$kind: $words"; echo "$kind $words" >>/tmp/rounds
  done
done
tell story "An emulated guest with the kernel's own initiator: random 8 KiB with direct I/O, 70 % reads, 8 outstanding, on a" \
  "raw disk and on a file in ext4, $SECONDS_EACH s each in turn, $ROUNDS rounds. Published: equal within noise."
row() { figure "$1" "$2" "file=$(rounds file "$3")" "raw=$(rounds raw "$3")" per=raw published=1 goal=same; }
row "commands a second" 1/s 2
row "mean latency" µs 3
umount /mnt/fs

# PostgreSQL on a disk of the array and on one of its peer, tgt, in turn; then the array is killed under it, twice.
# Transactions are those of pgbench, "TPC-B (sort of)". docs/benchmarks.md has the figures.
SCALE=2 CLIENTS=4 ROUNDS=3 SECONDS_EACH=15
bin=$(echo /usr/lib/postgresql/*/bin)
initiator iqn.2001-04.org.example:guest
discover >/dev/null
set_node node.session.timeo.replacement_timeout 120
login "$PORT_A"
peer=$(ask peer 1024) || fail "no peer: $peer"
read -r PEER_PORT PEER_IQN PEER_LUN <<<"$peer"
nft add rule ip lab out ip daddr 127.0.0.1 tcp dport "$PEER_PORT" dnat to 10.0.2.2
iscsiadm -m discovery -t sendtargets -p "127.0.0.1:$PEER_PORT" >/dev/null
IQN=$PEER_IQN login "$PEER_PORT"

as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
port() { case $1 in array) echo 5432 ;; tgt) echo 5433 ;; esac; }
sql() { as "$bin/psql" -h /tmp -p "$(port "$1")" -X -At -c "$2" bench; }
# It must be gone before anything else is done: the disk is unmounted under it.
server() { as "$bin/pg_ctl" -D "/mnt/$1/data" -w -t 600 -l "/tmp/$1.log" "${@:2}" >/dev/null || { cat "/tmp/$1.log"; fail "pg_ctl $*"; }; }
bench() { as "$bin/pgbench" -h /tmp -p "$(port "$1")" -n -c $CLIENTS "${@:2}" bench 2>&1; }
processed() { sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' /tmp/bench.out; }
number() { sed -n "s/^$1 = \([0-9.]*\).*/\1/p"; }

create() { # NAME DEVICE
  mkdir -p "/mnt/$1"; mkfs.ext4 -q "$2"; mount "$2" "/mnt/$1"; cp -a /tmp/data "/mnt/$1/"
  cat >>"/mnt/$1/data/postgresql.conf" <<CONF
port = $(port "$1")
listen_addresses = ''
unix_socket_directories = '/tmp'
shared_buffers = 64MB
autovacuum = off
jit = off
CONF
  server "$1" start
  as "$bin/createdb" -h /tmp -p "$(port "$1")" bench
  say "$1: tables"; as "$bin/pgbench" -h /tmp -p "$(port "$1")" -i -s $SCALE -q bench >/tmp/init.out 2>&1 || { cat /tmp/init.out; fail "pgbench -i"; }
}
as "$bin/initdb" -D /tmp/data --no-sync --data-checksums --locale=C -E UTF8 -A trust >/dev/null; say "initdb"
create array "$(disk "$PORT_A" 0)"
create tgt "$(IQN=$PEER_IQN disk "$PEER_PORT" "$PEER_LUN")"

# balanced NAME: every table has the same sum, as each transaction adds to all of them.
balanced() {
  local sums; sums=$(sql "$1" "select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches)
    and (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers)
    and (select sum(tbalance) from pgbench_tellers) = (select coalesce(sum(delta), 0) from pgbench_history)")
  [ "$sums" = t ] || fail "$1: the tables' sums differ"
}
# sound NAME: tables and indexes by pg_amcheck, then every page's checksum, then the file system.
sound() {
  as "$bin/pg_amcheck" -h /tmp -p "$(port "$1")" --install-missing --heapallindexed --parent-check bench
  server "$1" stop -m fast
  as "$bin/pg_checksums" --check -D "/mnt/$1/data" | grep -E '^(Blocks scanned|Bad checksums)'
  local device; device=$(findmnt -no SOURCE "/mnt/$1")
  umount "/mnt/$1"; fsck.ext4 -fn "$device" >/dev/null
}

say "$SECONDS_EACH s each in turn, $ROUNDS rounds"
rounds=()
for round in $(seq $ROUNDS); do
  for name in array tgt; do
    sql $name checkpoint >/dev/null; before=$(ask cpu)
    bench $name -T $SECONDS_EACH >/tmp/bench.out || { cat /tmp/bench.out; fail "pgbench on $name"; }
    after=$(ask cpu); tps=$(number tps </tmp/bench.out)
    latency=$(number 'latency average' </tmp/bench.out)
    count=$(processed)
    field=$([ $name = array ] && echo 1 || echo 2)
    cpu=$(($(cut -d' ' -f$field <<<"$after") - $(cut -d' ' -f$field <<<"$before")))
    say "$name: $tps a second, $latency ms, $((cpu * 1000 / count)) us of the target's processor each"
    echo "$name $tps $latency $((cpu * 1000 / count))" >>/tmp/rounds
  done
done
balanced array; balanced tgt

say "the array is killed twice under transactions"
before=$(sql array 'select count(*) from pgbench_history')
bench array -T 30 >/tmp/bench.out & load=$!
sleep 3; ask crash; say "killed and started"
sleep 3; kill -0 $load 2>/dev/null || say "the load was over early"
ask crash; say "killed and started again"
wait $load || { cat /tmp/bench.out; fail "pgbench over the kills"; }
grep -q '^number of failed transactions: 0 ' /tmp/bench.out || { cat /tmp/bench.out; fail "transactions failed"; }
answered=$(processed)
balanced array

say "and once more at the moment when PostgreSQL dies: it recovers from its log, read from the disk alone"
bench array -t 100 >/tmp/bench.out || { cat /tmp/bench.out; fail "pgbench"; }
answered=$((answered + $(processed)))
server array stop -m immediate; ask crash
device=$(findmnt -no SOURCE /mnt/array); umount /mnt/array; mount "$device" /mnt/array
server array start
grep -q 'redo done at' /tmp/array.log || fail "it did not recover"
after=$(sql array 'select count(*) from pgbench_history')
[ $((after - before)) = $answered ] || fail "$answered transactions were answered, $((after - before)) are there"
balanced array
sound array; sound tgt
say "$answered transactions were answered over three kills, and all are there; pg_amcheck, checksums, file systems clean"

tell story "An emulated guest with the kernel's own initiator: pgbench's TPC-B-like transactions, scale $SCALE, $CLIENTS" \
  "clients, $SECONDS_EACH s each in turn, $ROUNDS rounds."
row() { figure "$1" "$2" "array=$(rounds array "$3")" "tgt=$(rounds tgt "$3")"; }
row "transactions a second" 1/s 2
row "latency" ms 3
row "processor time of the target each" µs 4
tell note "$answered transactions were answered over three kills of the array, and all are there; pg_amcheck, every page's" \
  "checksum and both file systems are clean."

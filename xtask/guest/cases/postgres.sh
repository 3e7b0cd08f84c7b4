# PostgreSQL on a disk of the array and on one of its peer, tgt, in turn; then the array is killed under it.
# Transactions are those of pgbench, "TPC-B (sort of)", and those of sysbench's oltp_read_write, each in a database of its own.
# docs/benchmarks.md has the figures.
SCALE=2 CLIENTS=4 ROUNDS=3 SECONDS_EACH=15
TABLES=4 TABLE_ROWS=20000
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
sql() { as "$bin/psql" -h /tmp -p "$(port "$1")" -X -At -c "$2" "${3:-bench}"; }
# It must be gone before anything else is done: the disk is unmounted under it.
server() { as "$bin/pg_ctl" -D "/mnt/$1/data" -w -t 600 -l "/tmp/$1.log" "${@:2}" >/dev/null || { cat "/tmp/$1.log"; fail "pg_ctl $*"; }; }
bench() { as "$bin/pgbench" -h /tmp -p "$(port "$1")" -n -c $CLIENTS "${@:2}" bench 2>&1; }
# Rows are drawn uniformly: by sysbench's default three of four draws are of 1 % of the rows, and more clients want the same one.
oltp() { # NAME COMMAND OPTIONS...
  as sysbench oltp_read_write --db-driver=pgsql --pgsql-host=/tmp --pgsql-port="$(port "$1")" --pgsql-user=postgres --pgsql-db=sysbench \
    --tables=$TABLES --table-size=$TABLE_ROWS --threads=$CLIENTS --rand-type=uniform "${@:3}" "$2" 2>&1
}
processed() { sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' /tmp/bench.out; }
number() { sed -n "s/^$1 = \([0-9.]*\).*/\1/p" /tmp/bench.out; }
reported() { sed -n "s/^ *$1: *\([0-9.]*\).*/\1/p" /tmp/bench.out; }

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
  as "$bin/createdb" -h /tmp -p "$(port "$1")" sysbench
  say "$1: tables"; as "$bin/pgbench" -h /tmp -p "$(port "$1")" -i -s $SCALE -q bench >/tmp/init.out 2>&1 || { cat /tmp/init.out; fail "pgbench -i"; }
  oltp "$1" prepare >/tmp/init.out || { cat /tmp/init.out; fail "sysbench prepare"; }
  say "$1: filled"
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
# whole NAME: sysbench's tables have every row once, as its transactions delete a row and insert it again.
whole() {
  local n found
  for n in $(seq $TABLES); do
    found=$(sql "$1" "select count(*), min(id), max(id) from sbtest$n" sysbench)
    [ "$found" = "$TABLE_ROWS|1|$TABLE_ROWS" ] || fail "$1: sbtest$n has rows, first and last $found"
  done
}
# sound NAME: tables and indexes by pg_amcheck, then every page's checksum, then the file system.
sound() {
  as "$bin/pg_amcheck" -h /tmp -p "$(port "$1")" --install-missing --heapallindexed --parent-check -d bench -d sysbench
  server "$1" stop -m fast
  as "$bin/pg_checksums" --check -D "/mnt/$1/data" | grep -E '^(Blocks scanned|Bad checksums)'
  local device; device=$(findmnt -no SOURCE "/mnt/$1")
  umount "/mnt/$1"; fsck.ext4 -fn "$device" >/dev/null
}

# run_pgbench NAME and run_oltp NAME OPTIONS...: /tmp/bench.out is what the program reports.
run_pgbench() { bench "$1" -T $SECONDS_EACH >/tmp/bench.out || { cat /tmp/bench.out; fail "pgbench on $1"; }; }
# sysbench repeats transactions that the database has aborted because two clients wanted the same row, and counts them as errors.
# The server's log names each one: there must not be an error of another kind, nor a lost connection.
run_oltp() {
  local lines conflicts; lines=$(wc -l <"/tmp/$1.log")
  oltp "$1" run "${@:2}" >/tmp/bench.out || { cat /tmp/bench.out; fail "sysbench on $1"; }
  tail -n +$((lines + 1)) "/tmp/$1.log" >/tmp/bench.log
  conflicts=$(grep -cE 'ERROR:  (duplicate key value|deadlock detected)' /tmp/bench.log || true)
  [ "$(grep -cE ' (ERROR|FATAL|PANIC):  ' /tmp/bench.log || true)" = "$conflicts" ] || { cat /tmp/bench.log; fail "errors of the server"; }
  [ "$(reported 'ignored errors') $(reported reconnects)" = "$conflicts 0" ] ||
    { cat /tmp/bench.out; fail "sysbench met errors, $conflicts of them conflicts of its clients"; }
  [ "$conflicts" = 0 ] || say "$1: $conflicts transactions repeated after a conflict of two clients"
}
# used NAME: milliseconds of processor time that the target of a database has used.
used() { ask cpu | cut -d' ' -f"$([ "$1" = array ] && echo 1 || echo 2)"; }

say "$SECONDS_EACH s each in turn, $ROUNDS rounds"
for round in $(seq $ROUNDS); do
  for name in array tgt; do
    sql $name checkpoint >/dev/null; before=$(used $name)
    run_pgbench $name
    cpu=$((($(used $name) - before) * 1000 / $(processed)))
    say "$name: $(number tps) a second, $(number 'latency average') ms, $cpu us of the target's processor each"
    echo "pgbench-$name $(number tps) $(number 'latency average') $cpu" >>/tmp/rounds
  done
  for name in array tgt; do
    sql $name checkpoint >/dev/null; before=$(used $name)
    run_oltp $name --time=$SECONDS_EACH
    count=$(reported transactions) cpu=$((($(used $name) - before) * 1000 / count))
    tps=$(sed -n 's/^ *transactions: .*(\([0-9.]*\) per sec.*/\1/p' /tmp/bench.out)
    say "$name: sysbench: $tps a second, $(reported avg) ms, 95 % $(reported '95th percentile') ms, $cpu us each"
    echo "oltp-$name $tps $(reported avg) $(reported '95th percentile') $cpu" >>/tmp/rounds
  done
done
for name in array tgt; do balanced $name; whole $name; done

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

say "the array is killed under sysbench"
commits() { sql array "select xact_commit from pg_stat_database where datname = 'sysbench'"; }
committed() { [ "$(commits)" -ge "$1" ]; }
begun=$(commits)
run_oltp array --time=30 & load=$!
until_true 30 committed $((begun + 20))
ask crash; kill -0 $load 2>/dev/null || fail "sysbench had ended before the array was there again"
say "killed and started"
wait $load
over_kill=$(reported transactions)
whole array

say "and once more at the moment when PostgreSQL dies: it recovers from its log, read from the disk alone"
bench array -t 100 >/tmp/bench.out || { cat /tmp/bench.out; fail "pgbench"; }
answered=$((answered + $(processed)))
server array stop -m immediate; ask crash
device=$(findmnt -no SOURCE /mnt/array); umount /mnt/array; mount "$device" /mnt/array
server array start
grep -q 'redo done at' /tmp/array.log || fail "it did not recover"
after=$(sql array 'select count(*) from pgbench_history')
[ $((after - before)) = $answered ] || fail "$answered transactions were answered, $((after - before)) are there"
balanced array; whole array
sound array; sound tgt
say "$answered transactions of pgbench were answered over three kills, and all are there; pg_amcheck, checksums, file systems clean"

tell story "An emulated guest with the kernel's own initiator: pgbench's TPC-B-like transactions, scale $SCALE, and sysbench's" \
  "oltp_read_write, $TABLES tables of $TABLE_ROWS rows, rows drawn uniformly; $CLIENTS clients, $SECONDS_EACH s each in turn, $ROUNDS rounds."
row() { figure "$1" "$2" "array=$(rounds "$3-array" "$4")" "tgt=$(rounds "$3-tgt" "$4")"; }
row "pgbench: transactions a second" 1/s pgbench 2
row "pgbench: latency" ms pgbench 3
row "pgbench: processor time of the target each" µs pgbench 4
row "sysbench: transactions a second" 1/s oltp 2
row "sysbench: latency" ms oltp 3
row "sysbench: latency, 95th percentile" ms oltp 4
row "sysbench: processor time of the target each" µs oltp 5
tell note "$answered transactions of pgbench were answered over three kills of the array, and all are there; $over_kill of sysbench" \
  "over another one lost no connection; pg_amcheck, every page's checksum and both file systems are clean."

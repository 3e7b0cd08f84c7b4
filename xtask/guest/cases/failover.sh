# A database whose array is lost: PostgreSQL with its log on a second volume, both in a replicated group. The source is killed under
# transactions, the target is promoted, and PostgreSQL recovers there: it has every transaction that was acknowledged before the
# last point, and none without those before it. With $SYNC the replication is synchronous by then, and it has every transaction that
# was acknowledged at all.
SCALE=1 CLIENTS=4 POINTS=2
bin=$(echo /usr/lib/postgresql/*/bin)
initiator iqn.2001-04.org.example:guest
nft add rule ip lab out ip daddr 127.0.0.1 tcp dport "$PORT_THERE" dnat to 10.0.2.2

as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
sql() { as "$bin/psql" -h /tmp -X -At -c "$1" bench; }
# Its output would keep what waits for it waiting.
server() { as "$bin/pg_ctl" -D /mnt/data/db -w -t 600 -l /tmp/server.log "$@" >/dev/null || { cat /tmp/server.log; fail "pg_ctl $*"; }; }
bench() { as "$bin/pgbench" -h /tmp -n -c $CLIENTS "$@" bench 2>&1; }
state() { ask "$1" replication show bench | sed -n 's/.*"state": *"\([a-z_]*\)".*/\1/p'; }
is() { [ "$(state "$1")" = "$2" ]; }
mounted() { mkdir -p /mnt/data /mnt/log; mount "$1" /mnt/data; mount "$2" /mnt/log; }

say "a database on two volumes of the source"
discover >/dev/null
# The disks fail soon after the array is lost.
set_node node.session.timeo.replacement_timeout 5
login "$PORT_A"
data=$(disk "$PORT_A" 0) log=$(disk "$PORT_A" 1)
mkfs.ext4 -q "$data"; mkfs.ext4 -q "$log"; mounted "$data" "$log"
chown postgres /mnt/data /mnt/log
as "$bin/initdb" -D /mnt/data/db -X /mnt/log/wal --no-sync --data-checksums --locale=C -E UTF8 -A trust >/dev/null
cat >>/mnt/data/db/postgresql.conf <<CONF
listen_addresses = ''
unix_socket_directories = '/tmp'
shared_buffers = 64MB
autovacuum = off
jit = off
CONF
server start
as "$bin/createdb" -h /tmp bench
as "$bin/pgbench" -h /tmp -i -s $SCALE -q bench >/tmp/init.out 2>&1 || { cat /tmp/init.out; fail "pgbench -i"; }
sql 'create table counted (number bigint primary key)' >/dev/null

say "transactions; a counter adds one row after the other, and notes each that was acknowledged"
count() { seq 1000000 | awk '{ print "insert into counted values (" $1 ");\n\\echo " $1 }' | as stdbuf -oL "$bin/psql" -h /tmp -X -q -v ON_ERROR_STOP=1 bench; }
count >/tmp/acknowledged 2>/dev/null & counter=$!
bench -T 1500 >/tmp/bench.out & load=$!
acknowledged() { grep -c . /tmp/acknowledged || true; }
beyond() { [ "$(acknowledged)" -gt "$1" ]; }
until_true 120 beyond 3
for point in $(seq $POINTS); do
  before=$(acknowledged); history=$(sql 'select count(*) from pgbench_history')
  ask cli replication sync bench >/dev/null; until_true 600 is cli idle
  say "point $point is complete; $before rows and $history transactions were acknowledged before"
done
if [ "$SYNC" = 1 ]; then
  ask cli replication set bench --mode sync --on-link-loss stop >/dev/null; until_true 600 is cli in_sync
  say "both arrays are the same; $(acknowledged) rows were acknowledged before"
fi
until_true 120 beyond $(($(acknowledged) + 20))

say "the array is lost"
ask kill
wait $load || true; wait $counter || true
processed=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' /tmp/bench.out)
say "$(acknowledged) rows and ${processed:?} transactions were acknowledged at all"
if [ "$SYNC" = 1 ]; then before=$(acknowledged) history=$processed; fi
pkill -9 -u postgres || true; until_true 60 bash -c '! pgrep -u postgres >/dev/null'
umount -l /mnt/data /mnt/log; iscsiadm -m node -T "$IQN" --logout >/dev/null 2>&1 || true; iscsiadm -m node -T "$IQN" -o delete >/dev/null

say "the target is promoted"
ask there replication promote bench --force >/dev/null; until_true 300 is there promoted
ask there volume connect data --host guest --lun 0 >/dev/null; ask there volume connect log --host guest --lun 1 >/dev/null
IQN=$IQN_THERE
iscsiadm -m discovery -t sendtargets -p "127.0.0.1:$PORT_THERE" >/dev/null
login "$PORT_THERE"
mounted "$(disk "$PORT_THERE" 0)" "$(disk "$PORT_THERE" 1)"
rm -f /mnt/data/db/postmaster.pid; : >/tmp/server.log; server start
grep -q 'redo done at' /tmp/server.log || fail "it did not recover"

rows=$(sql 'select count(*) from counted') last=$(sql 'select max(number) from counted') there=$(sql 'select count(*) from pgbench_history')
say "$rows rows, the last is $last; $there transactions"
[ "$last" -ge "$before" ] && [ "$there" -ge "$history" ] || fail "what was acknowledged is not there: $before rows, $history transactions"
[ "$rows" = "$last" ] || fail "a row is missing before the last one"
[ "$last" -le "$(($(acknowledged) + 1))" ] || fail "rows that were never written"
balance="select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history)
  and (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers)
  and (select sum(tbalance) from pgbench_tellers) = (select coalesce(sum(delta), 0) from pgbench_history)"
[ "$(sql "$balance")" = t ] || fail "the tables' sums differ"
as "$bin/pg_amcheck" -h /tmp --install-missing --heapallindexed --parent-check bench
bench -t 20 >/tmp/bench.out || { cat /tmp/bench.out; fail "it does not go on"; }
server stop -m fast
as "$bin/pg_checksums" --check -D /mnt/data/db | grep -E '^(Blocks scanned|Bad checksums)'
for folder in data log; do device=$(findmnt -no SOURCE "/mnt/$folder"); umount "/mnt/$folder"; fsck.ext4 -fn "$device" >/dev/null; done

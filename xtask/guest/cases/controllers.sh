# dm-multipath over two controllers of an array in a Ceph cluster, both active. The host writes and verifies while the home is killed,
# is frozen and resumed, is drained and started again as by an upgrade, and while the other controller is killed.
initiator iqn.2001-04.org.example:guest
# A path is slow before it is dead: everything is emulated on one processor.
round_robin 2 120
until_true 60 active 2
multipath -ll
# Not by the host, but at the array: whatever it asks may be under way in several copies.
is() { [ "$(ask state "$1" "$2" 2>/dev/null)" = "$3" ]; }

# under_load HOME OTHER COMMAND: the host writes and verifies while something happens to a controller; OTHER is the home then.
under_load() {
  local home=$1 other=$2; shift 2
  verify "$map" 48m 3 & load=$!
  sleep 3; "$@" >/dev/null
  until_true 120 is "$other" "$other" home
  kill -0 $load 2>/dev/null || say "the load was over early"
  wait $load || fail "the host has lost data, or got an error"
}
back() { # NUMBER: both controllers serve again
  until_true 120 active 2
  verify "$map" 8m
}

say "both controllers carry I/O"
carried
say "the home is killed"
under_load 1 2 ask kill 1
ask start 1; back
say "the home is frozen for 20 s, and resumed"
under_load 2 1 ask freeze 2
sleep 20; ask thaw 2
verify "$map" 8m
ask start 2; back
say "the home is drained, stopped and started again, as by an upgrade"
under_load 1 2 ask cli 2 controller drain 1
ask stop 1; verify "$map" 8m; ask start 1; back
ask cli 2 controller resume 1 >/dev/null
say "the controller that forwards is killed"
under_load 1 2 ask kill 1
ask start 1; back
say "the kernel has seen paths fail, and nothing else"
dmesg | grep -E "Buffer I/O error|I/O error, dev dm-|critical (medium|target) error|miscompare" && fail "the host saw an error"
dmesg | grep -c "Failing path\|I/O error, dev sd\|rejecting I/O" || true

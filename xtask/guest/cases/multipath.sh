# dm-multipath over two portals, round-robin; one path is cut and restored under load.
cat >/etc/multipath.conf <<'CONF'
defaults {
  find_multipaths no
  user_friendly_names no
  polling_interval 1
  path_grouping_policy multibus
  path_selector "round-robin 0"
  rr_min_io_rq 1
  failback immediate
  no_path_retry 60
}
blacklist {
  devnode "^vd"
}
CONF
initiator iqn.2001-04.org.example:guest
discover >/dev/null
set_node node.session.timeo.replacement_timeout 2
login "$PORT_A"; login "$PORT_B"
multipathd; until_true 30 sh -c 'multipathd show maps raw format "%w" 2>/dev/null | grep -q .'
map=/dev/mapper/$(multipathd show maps raw format '%w' | head -n 1)
until_true 30 test -b "$map"
active() { [ "$(multipathd show paths raw format '%t' | grep -c active)" = "$1" ]; }
writes() { awk '{ print $5 }' "/sys/block/$(basename "$(disk "$1" 0)")/stat"; }
until_true 30 active 2
multipath -ll

say "both paths carry I/O"
verify "$map" 16m
a=$(writes "$PORT_A"); b=$(writes "$PORT_B"); say "writes: $a and $b"
[ "$a" -gt 0 ] && [ "$b" -gt 0 ] && [ $((a * 2)) -gt "$b" ] && [ $((b * 2)) -gt "$a" ] || fail "not round-robin"

say "a path is cut and restored under load"
verify "$map" 48m 2 & load=$!
sleep 1; nft add rule ip lab cut tcp dport "$PORT_B" drop
until_true 60 active 1; say "one path"
kill -0 $load 2>/dev/null || say "the load was over early"
sleep 2; nft flush chain ip lab cut
until_true 60 active 2; say "two paths"
wait $load || fail "fio over the cut"
verify "$map" 8m

say "the other one, at rest"
nft add rule ip lab cut tcp dport "$PORT_A" drop
verify "$map" 8m
until_true 60 active 1
nft flush chain ip lab cut; until_true 60 active 2

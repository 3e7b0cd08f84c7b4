# dm-multipath over two portals, round-robin; one path is cut and restored under load.
initiator iqn.2001-04.org.example:guest
round_robin 2 60
multipath -ll

say "both paths carry I/O"
carried

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

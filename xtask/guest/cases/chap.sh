# CHAP one-way and mutual, with right and with wrong secrets.
chap() { # NAME USER SECRET [MUTUAL-USER MUTUAL-SECRET]
  initiator "$1"
  discover >/dev/null
  set_node node.session.auth.authmethod CHAP
  set_node node.session.auth.username "$2"; set_node node.session.auth.password "$3"
  set_node node.session.auth.username_in "${4:-}"; set_node node.session.auth.password_in "${5:-}"
}
refused() { if login "$PORT_A" 2>/dev/null; then fail "logged in: $1"; fi; }

chap iqn.2001-04.org.example:oneway alice wrong-secret-12; refused "wrong secret"
chap iqn.2001-04.org.example:oneway mallory alice-secret-1; refused "wrong name"
initiator iqn.2001-04.org.example:oneway; discover >/dev/null
set_node node.session.auth.authmethod None; refused "without CHAP"
chap iqn.2001-04.org.example:oneway alice alice-secret-1; login "$PORT_A"; say "one-way"
verify "$(disk "$PORT_A" 0)" 4m
logout "$PORT_A"

chap iqn.2001-04.org.example:mutual bob bob-secret-123 array wrong-secret-12; refused "the array can't prove itself"
chap iqn.2001-04.org.example:mutual bob bob-secret-123 array array-secret-1; login "$PORT_A"; say "mutual"
verify "$(disk "$PORT_A" 0)" 4m
logout "$PORT_A"

# What the cases share. $IQN, $PORT_A and $PORT_B come before this, where the array listens on the host's 127.0.0.1; a case
# that runs the array in the guest has none of them.
set -euo pipefail
trap 'echo "failed at line $LINENO: $BASH_COMMAND"' ERR

say() { echo "[$(cut -d' ' -f1 /proc/uptime)] $*"; }
fail() { say "FAILED: $*"; exit 1; }

# ask WORDS: has the host do something and prints its answer. See xtask/src/guest.rs.
ask() {
  echo "$*" >/run/lab/question.new; mv /run/lab/question.new /run/lab/question
  until [ -e /run/lab/answer ]; do sleep 0.05; done
  local status; status=$(head -n 1 /run/lab/answer); tail -n +2 /run/lab/answer; rm /run/lab/answer
  [ "$status" = ok ]
}

# within A B LIMIT: A and B differ by at most LIMIT.
within() {
  local difference=$(($1 - $2)); [ "${difference#-}" -le "$3" ] || fail "$1 and $2 differ by more than $3 ($4)"
}

# until_true SECONDS COMMAND: repeats a command until it succeeds.
until_true() {
  local end=$(($(date +%s) + $1)); shift
  until "$@"; do [ "$(date +%s)" -lt "$end" ] || fail "not within the time: $*"; sleep 0.3; done
}

# SendTargets names the array's own address, 127.0.0.1: lead that to the host.
reach_host() {
  sysctl -qw net.ipv4.conf.all.route_localnet=1
  nft -f - <<NFT
table ip lab {
  chain out { type nat hook output priority -100; ip daddr 127.0.0.1 tcp dport { $PORT_A, $PORT_B } dnat to 10.0.2.2; }
  chain post { type nat hook postrouting priority 100; oifname "eth0" masquerade; }
  chain cut { type filter hook output priority 0; }
}
NFT
}

# initiator NAME: becomes this initiator, with open-iscsi as it comes but for short times.
initiator() {
  local pid; pid=$(cat /run/iscsid.pid 2>/dev/null || true)
  if [ -n "$pid" ]; then iscsiadm -k 0 >/dev/null 2>&1 || true; until_true 10 test ! -d "/proc/$pid"; fi
  echo "InitiatorName=$1" >/etc/iscsi/initiatorname.iscsi
  sed -i -e '/^iscsid.startup/d' -e 's/^\(node.conn\[0\].timeo.noop_out_interval\).*/\1 = 1/' \
    -e 's/^\(node.conn\[0\].timeo.noop_out_timeout\).*/\1 = 2/' /etc/iscsi/iscsid.conf
  mkdir -p /run/lock/iscsi; iscsid; until_true 10 iscsiadm -m iface >/dev/null
}

discover() { iscsiadm -m discovery -t sendtargets -p "127.0.0.1:$PORT_A"; }
set_node() { iscsiadm -m node -T "$IQN" -o update -n "$1" -v "$2"; }
login() { iscsiadm -m node -T "$IQN" -p "127.0.0.1:$1" --login >/dev/null && udevadm settle; }
logout() { iscsiadm -m node -T "$IQN" -p "127.0.0.1:$1" --logout >/dev/null; udevadm settle; }

# disk PORT LUN: the device of a LUN by the session of a portal.
disk() { readlink -f "/dev/disk/by-path/ip-127.0.0.1:$1-iscsi-$IQN-lun-$2"; }

# paths_in_turns RETRIES: the defaults of multipath.conf by which all paths of a device are used in turns.
paths_in_turns() {
  cat <<CONF
defaults {
  find_multipaths no
  user_friendly_names no
  polling_interval 1
  path_grouping_policy multibus
  path_selector "round-robin 0"
  rr_min_io_rq 1
  failback immediate
  no_path_retry $1
}
CONF
}

# round_robin SECONDS RETRIES: logs in at both portals and makes one device of both paths, $map, used in turns; paths fail after these
# seconds, and without one I/O waits for this number of retries, one each second.
round_robin() {
  { paths_in_turns "$2"; printf 'blacklist {\n  devnode "^vd"\n}\n'; } >/etc/multipath.conf
  discover >/dev/null
  set_node node.session.timeo.replacement_timeout "$1"
  login "$PORT_A"; login "$PORT_B"
  multipathd; until_true 30 sh -c 'multipathd show maps raw format "%w" 2>/dev/null | grep -q .'
  map=/dev/mapper/$(multipathd show maps raw format '%w' | head -n 1)
  until_true 30 test -b "$map"
  until_true 30 active 2
}
active() { [ "$(multipathd show paths raw format '%t' | grep -c active)" = "$1" ]; }

# carried: both paths of $map carry about the same.
carried() {
  local a b
  writes() { awk '{ print $5 }' "/sys/block/$(basename "$(disk "$1" 0)")/stat"; }
  verify "$map" 16m
  a=$(writes "$PORT_A"); b=$(writes "$PORT_B"); say "writes: $a and $b"
  [ "$a" -gt 0 ] && [ "$b" -gt 0 ] && [ $((a * 2)) -gt "$b" ] && [ $((b * 2)) -gt "$a" ] || fail "not round-robin"
}

# namespace NSID: the device of a namespace over NVMe/TCP. has NSID, and lacks NSID.
namespace() {
  local found
  for found in /sys/class/nvme-subsystem/nvme-subsys*/nvme*n*; do
    [ -e "$found/nsid" ] && [ "$(cat "$found/nsid")" = "$1" ] && echo "/dev/${found##*/}" && return
  done
  return 1
}
has() { namespace "$1" >/dev/null; }
lacks() { ! has "$1"; }

# rounds NAME FIELD: of the lines of /tmp/rounds that begin with a name, one for each round.
rounds() { awk -v name="$1" -v field="$2" '$1 == name { printf "%s ", $field }' /tmp/rounds; }

# busy: milliseconds of processor time that the guest has used. settle: until background work is done, for half a minute at most.
busy() { awk '/^cpu / { print ($2 + $3 + $4 + $7 + $8) * 10 }' /proc/stat; }
settle() {
  local n before
  for n in $(seq 15); do before=$(busy); sleep 2; [ $(($(busy) - before)) -gt 200 ] || return 0; done
}

# figure WHAT UNIT COLUMN=VALUES..., and tell story|note TEXT: a line of what the case measured. See "Figures from
# elsewhere" in docs/lab.md; xtask/src/real.rs has the titles of the cases that measure.
figure() { local IFS=$'\t'; echo "figure$IFS$*" >>/run/lab/figures; }
tell() { printf '%s\t%s\n' "$1" "${*:2}" >>/run/lab/figures; }

# verify DEVICE BYTES SECONDS: random writes of several sizes, read back and compared.
verify() {
  fio --name=verify --filename="$1" --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --bsrange=4k-64k \
    --size="$2" --verify=crc32c --verify_fatal=1 --do_verify=1 --time_based=0 --loops="${3:-1}" --minimal >/tmp/fio.out 2>&1 ||
    { cat /tmp/fio.out; fail "fio on $1"; }
}

if [ -n "${PORT_B:-}" ]; then reach_host; fi

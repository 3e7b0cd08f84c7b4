# The kernel's NVMe/TCP host over TLS 1.3, with Debian 13's nvme-cli and tlshd, which does the handshake with GnuTLS: who has the key
# connects, and no other one; data, a file system over a restart of the array, discovery, another key, and DH-HMAC-CHAP over TLS. Not with
# SHA-384: the tlshd of Debian 13 is built without what GnuTLS has for such keys, and makes their binders with SHA-256.
SUBSYSTEM=nqn.2026-11.io.ashlar:${IQN##*:}
DISCOVERY=nqn.2014-08.org.nvmexpress.discovery
HOSTID=7a3f0c5e-1f3b-4e55-9d0e-5c2b7f9a1d10
modprobe -a nvme_fabrics nvme_tcp tls
cat >/etc/tlshd.conf <<CONF
[debug]
loglevel=1
[authenticate]
keyrings=.nvme
CONF
mkdir -p /etc/tlshd; cp /etc/tlshd.conf /etc/tlshd/config
tlshd -s >/run/lab/tlshd 2>&1 &

connect() { # PORT OPTIONS
  nvme connect -t tcp -a 10.0.2.2 -s "$1" -n "$SUBSYSTEM" -q "$HOSTNQN" -I "$HOSTID" --nr-io-queues=1 "${@:2}" >/tmp/connect 2>&1
}
controllers() {
  local found
  for found in /sys/class/nvme/nvme*; do [ "$(cat "$found/transport")" = tcp ] && echo "$found"; done
}
state() { cat "$(controllers)/state"; }
live() { [ "$(state)" = live ]; }
disconnect() {
  local controller
  for controller in $(controllers); do echo 1 >"$controller/delete_controller"; done
  until_true 60 lacks 2
}
recorded() {
  ask cli host refused-logins >/tmp/refused
  grep -q "\"$1\"" /tmp/refused
}
refused() { # CAUSE PORT OPTIONS
  ! connect "${@:2}" || fail "connected in spite of $1"
  until_true 60 recorded "$1"
}
# keys SECRET HMAC: puts the keys that are derived from a secret into the keyring, and prints the PSK in the interchange format.
keys() {
  local name
  keyctl clear "$(keyring)"
  for name in "$SUBSYSTEM" "$DISCOVERY"; do
    nvme gen-tls-key --hmac="$2" --hostnqn "$HOSTNQN" --subsysnqn "$name" --identity=1 --secret "$1" --insert >/tmp/key
  done
  head -n 1 /tmp/key
}
keyring() { awk '$8 == "keyring" && $9 == ".nvme:" { print "0x" $1 }' /proc/keys; }
secret() { head -c "$1" /dev/urandom | od -An -tx1 | tr -d ' \n'; }

say "a host without a PSK at a portal with TLS, and one with a PSK without TLS"
refused tls-required "$NVME_TLS"
first=$(secret 32)
psk=$(keys "$first" 1)
grep '\.nvme\|psk' /proc/keys
ask cli host set nvme --tls-psk "$psk" >/dev/null
refused tls-required "$NVME_A"

say "another key"
keys "$(secret 32)" 1 >/dev/null
refused tls-handshake "$NVME_TLS" --tls

say "the key of the host, with SHA-256"
keys "$first" 1 >/dev/null
connect "$NVME_TLS" --tls || { cat /tmp/connect /run/lab/tlshd; dmesg | tail -n 20; fail "it does not connect"; }
until_true 60 has 2; udevadm settle
live || fail "state: $(state)"
cat "$(controllers)/tls_key"
grep -q . "$(controllers)/tls_key" || fail "the kernel uses no key"
small=$(namespace 2); native=$(namespace 7)
for device in "$small" "$native"; do verify "$device" 16m 1; done
mkdir -p /mnt/fs
mkfs.ext4 -q -F "$small"; mount "$small" /mnt/fs
head -c 16M /dev/urandom >/mnt/fs/a; sum=$(sha256sum </mnt/fs/a); sync -f /mnt/fs

say "the array restarts: its path comes back with TLS, and the file system works"
ask restart
head -c 4M /dev/urandom >/mnt/fs/b; sync -f /mnt/fs
until_true 180 live
echo 3 >/proc/sys/vm/drop_caches
[ "$(sha256sum </mnt/fs/a)" = "$sum" ] || fail "the file changed"
umount /mnt/fs; fsck.ext4 -fp "$small" >/dev/null

say "discovery by TLS"
nvme discover -t tcp -a 10.0.2.2 -s "$NVME_TLS" -q "$HOSTNQN" -I "$HOSTID" --tls >/tmp/discovered 2>&1 || { cat /tmp/discovered; fail "no discovery"; }
grep -A12 "trsvcid: *$NVME_TLS" /tmp/discovered | grep -q 'sectype: *tls13' || { cat /tmp/discovered; fail "no sectype"; }
grep -q 'treq: *required' /tmp/discovered || { cat /tmp/discovered; fail "no treq"; }

say "another PSK ends the connection; with it, and with DH-HMAC-CHAP over TLS"
of_host=DHHC-1:01:nhr7JP2NMnF+O+sHDpADH7X4X92Mro645HWZ341f6zLhtuL4:
psk=$(keys "$(secret 32)" 1)
ask cli host set nvme --tls-psk "$psk" >/dev/null
gone() { ! live; }
until_true 60 gone
disconnect
ask cli host set nvme --dhchap-secret "$of_host" >/dev/null
refused dhchap-required "$NVME_TLS" --tls
connect "$NVME_TLS" --tls --dhchap-secret="$of_host" || { cat /tmp/connect /run/lab/tlshd; dmesg | tail -n 20; fail "it does not connect"; }
until_true 60 has 2; udevadm settle
verify "$(namespace 2)" 16m 1
disconnect

say "without a PSK it connects without TLS again"
ask cli host set nvme --no-tls --no-dhchap >/dev/null
connect "$NVME_A"
until_true 60 has 2
say "done"

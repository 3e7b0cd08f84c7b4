# The CSI driver with the node code as it is on a node: open-iscsi, multipathd, mkfs, mount, udev; under csi-sanity.
cat >/etc/multipath.conf <<'CONF'
blacklist {
  devnode "^vd"
}
CONF
initiator iqn.2001-04.org.example:guest
multipathd; until_true 30 multipathd show config local >/dev/null
cd /run/lab/tree
export ASHLAR_ARRAY=$API ASHLAR_TOKEN=$TOKEN
./ashlar-csi controller --cluster lab --location here --endpoint unix:///tmp/controller.sock 2>/tmp/controller.log &
./ashlar-csi node --name guest --location here --multipath required --state /tmp/volumes --endpoint unix:///tmp/node.sock \
  --patience 120s 2>/tmp/node.log &
until_true 60 test -S /tmp/controller.sock; until_true 60 test -S /tmp/node.sock
trap 'tail -n 40 /tmp/node.log /tmp/controller.log' EXIT

# What runs on the array alone is tested without a guest as well; here it is what needs a node.
suite() { # KIND FOCUS [OPTIONS]
  say "csi-sanity with volumes of kind $1: $2"
  ./csi-sanity --csi.endpoint unix:///tmp/node.sock --csi.controllerendpoint unix:///tmp/controller.sock \
    --csi.testvolumeaccesstype "$1" --csi.testvolumesize 134217728 --csi.testvolumeexpandsize 268435456 \
    --csi.mountdir "/tmp/$1-mount" --csi.stagingdir "/tmp/$1-staging" \
    --ginkgo.focus "$2" --ginkgo.no-color "${@:3}" >"/tmp/$1.out" 2>&1 ||
    { tail -n 80 "/tmp/$1.out"; fail "csi-sanity, $1"; }
  grep -E '^Ran |Passed' "/tmp/$1.out"
}
suite block 'Node Service|ExpandVolume'
suite mount 'Node Service|ExpandVolume'

# A host that exists gets CHAP, and the node must log in with it.
cat >/tmp/secrets <<'SECRETS'
ControllerPublishVolumeSecret: {chapUser: alice, chapSecret: alice-secret-1, mutualChapUser: array, mutualChapSecret: array-secret-1}
NodeStageVolumeSecret: {chapUser: alice, chapSecret: alice-secret-1, mutualChapUser: array, mutualChapSecret: array-secret-1}
SECRETS
suite block 'Node Service should work' --csi.secrets /tmp/secrets
ask cli host list | grep -q '"chap_user": *"alice"' || fail "the host has no CHAP: $(ask cli host list)"

say "nothing is left on the node"
[ -z "$(iscsiadm -m session 2>/dev/null)" ] || fail "sessions: $(iscsiadm -m session)"
[ -z "$(multipath -l 2>/dev/null)" ] || fail "maps: $(multipath -l)"
[ -z "$(ls /tmp/volumes | grep -v '^\.')" ] || fail "records: $(ls /tmp/volumes)"
if grep -E '/tmp/(block|mount)-' /proc/mounts; then fail "mounts"; fi
trap - EXIT

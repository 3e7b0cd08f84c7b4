# nvme-cli's own end-to-end tests against a namespace of the array. They need a controller with one namespace.
SUBSYSTEM=nqn.2026-11.io.ashlar:${IQN##*:}
modprobe -a nvme_fabrics nvme_tcp
mkdir -p /etc/nvme; echo "$HOSTNQN" >/etc/nvme/hostnqn; echo 7a3f0c5e-1f3b-4e55-9d0e-5c2b7f9a1d10 >/etc/nvme/hostid
connected() { [ "$(cat /sys/class/nvme/nvme*/state 2>/dev/null)" = live ] && ls /dev/nvme*n1 >/dev/null 2>&1; }

say "discovery and connection by nvme-cli"
nvme discover -t tcp -a 10.0.2.2 -s "$NVME_A" | tee /tmp/discovered
grep -q "subnqn: *$SUBSYSTEM" /tmp/discovered || fail "the subsystem is not discovered"
nvme connect -t tcp -a 10.0.2.2 -s "$NVME_A" -n "$SUBSYSTEM"
until_true 30 connected; udevadm settle
controller=$(basename /sys/class/nvme/nvme*)
nvme list

say "its tests"
cd /run/lab/tree
python3 nvme_cli.py "/dev/$controller" "$(ls /dev/nvme*n1)"

say "reservations"
device=$(ls /dev/nvme*n1)
nvme resv-register "$device" --nrkey=0xa1 --rrega=0
nvme resv-acquire "$device" --crkey=0xa1 --rtype=1 --racqa=0
nvme resv-report "$device" --eds | tee /tmp/report; grep -q 'rtype *: 1' /tmp/report && grep -q 'rkey *: a1' /tmp/report || fail "the report"
dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct status=none
nvme resv-release "$device" --crkey=0xa1 --rtype=1 --rrela=0
nvme resv-register "$device" --crkey=0xa1 --rrega=1
nvme disconnect -n "$SUBSYSTEM"
say "done"

# The storage plug-in for Proxmox VE as a node's kernel, open-iscsi and multipathd see it.
cat >/etc/multipath.conf <<'CONF'
blacklist {
  devnode "^vd"
}
CONF
mkdir -p /etc/multipath/conf.d; cp /run/lab/tree/conf/ashlar.conf /etc/multipath/conf.d/
initiator iqn.2001-04.org.example:guest
multipathd; until_true 30 multipathd show config local >/dev/null
cd /run/lab/tree
PERL5LIB=lib:t/lib perl t/guest.pl "$API" "$TOKEN"

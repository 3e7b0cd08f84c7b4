#!/bin/sh
# Builds ashlar-proxmox_VERSION_all.deb into a folder. Usage: build-deb.sh FOLDER
# Equal sources give an equal package: times are those of the last commit, owners are root.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=$1
version=$(sed -n "s/^our \$VERSION = '\(.*\)';$/\1/p" "$here/lib/Ashlar/Array.pm")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
umask 022
chmod 755 "$tree"

for module in Ashlar/Array Ashlar/Command Ashlar/Error Ashlar/Initiator PVE/Storage/Custom/AshlarPlugin; do
    install -D -m 644 "$here/lib/$module.pm" "$tree/usr/share/perl5/$module.pm"
done
install -D -m 644 "$here/conf/ashlar.conf" "$tree/etc/multipath/conf.d/ashlar.conf"
install -D -m 644 "$here/debian/copyright" "$tree/usr/share/doc/ashlar-proxmox/copyright"
mkdir -p "$tree/DEBIAN"
sed "s/@VERSION@/$version/" "$here/debian/control" >"$tree/DEBIAN/control"
echo /etc/multipath/conf.d/ashlar.conf >"$tree/DEBIAN/conffiles"
install -m 755 "$here/debian/postinst" "$here/debian/postrm" "$tree/DEBIAN/"
(cd "$tree" && find usr -type f | sort | xargs md5sum >DEBIAN/md5sums)

SOURCE_DATE_EPOCH=$(git -C "$here" log -1 --format=%ct -- . 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}
mkdir -p "$out"
dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/ashlar-proxmox_${version}_all.deb"

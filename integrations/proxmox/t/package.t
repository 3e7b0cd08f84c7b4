# The Debian package: what is in it, and that the plug-in loads from where it is put.

use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my $top = -e 'build-deb.sh' ? '.' : '..';
plan skip_all => 'dpkg-deb is not installed' if system('command -v dpkg-deb >/dev/null') != 0;

my $folder = tempdir(CLEANUP => 1);
is(system("$top/build-deb.sh $folder >/dev/null"), 0, 'it is built');
my ($package) = glob("$folder/ashlar-proxmox_*_all.deb");
ok($package, 'under its name');
is(system('dpkg-deb', '--extract', $package, "$folder/root"), 0, 'and can be unpacked');
ok(-e "$folder/root/$_", $_)
    for 'usr/share/perl5/PVE/Storage/Custom/AshlarPlugin.pm', 'etc/multipath/conf.d/ashlar.conf';
# Proxmox VE loads every .pm of this folder as a plug-in.
is_deeply([glob("$folder/root/usr/share/perl5/PVE/Storage/Custom/*.pm")],
    ["$folder/root/usr/share/perl5/PVE/Storage/Custom/AshlarPlugin.pm"], 'nothing else is there');
my $load = 'require PVE::Storage::Custom::AshlarPlugin; print PVE::Storage::Custom::AshlarPlugin->api';
is(qx{PERL5LIB=$top/t/lib $^X -I$folder/root/usr/share/perl5 -e '$load'}, '15', 'it loads without the source tree');
is(qx{dpkg-deb --field $package Version}, qx{perl -I$top/lib -MAshlar::Array -e 'print "\$Ashlar::Array::VERSION\n"'}, 'its version is that of the plug-in');
ok(-s "$folder/root/usr/share/doc/ashlar-proxmox/copyright");

done_testing;

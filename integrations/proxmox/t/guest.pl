# The plug-in on a real kernel: open-iscsi, multipathd, udev. Run in a guest by `cargo xtask guest proxmox`.
# Usage: guest.pl URL TOKEN

use strict;
use warnings;
use Test::More;

use Ashlar::Command;
use Plugin;
use PVE::INotify;

my ($url, $token) = @ARGV;
my $MIB = 1 << 20;
$PVE::INotify::NODE = 'guest';
my $initiator = $PVE::Storage::Custom::AshlarPlugin::INITIATOR;
my $storage = Plugin->new({ url => $url, token => $token }, id => 'flash');

sub out { return Ashlar::Command::output([@_], timeout => 120); }

# Fills the first MiB of a device with a letter, past the page cache.
sub fill {
    my ($path, $letter) = @_;
    out('/bin/sh', '-c', 'head -c 1048576 /dev/zero | tr "\0" "$1" | dd of="$2" bs=1M iflag=fullblock oflag=direct status=none', 'sh', $letter, $path);
    return;
}

sub holds {
    my ($path, $letter) = @_;
    return out('/bin/sh', '-c', 'dd if="$1" bs=1M count=1 iflag=direct status=none | tr -d "$2" | wc -c', 'sh', $path, $letter) == 0;
}

# Disks of the array on this node.
sub disks { return grep { ($initiator->wwid($_) // '') =~ /^naa\./ } $initiator->entries('/sys/block'); }

my $disk = $storage->alloc_image(100, 'raw', undef, 64 * 1024);
my $second = $storage->alloc_image(100, 'raw', undef, 64 * 1024);
my $naa = $storage->find_volume($disk)->{naa};
my $path = $storage->path($disk);

subtest 'attaching' => sub {
    $storage->activate_volume($disk);
    ok(-b $path, "$path is there");
    is(scalar(my @paths = $initiator->paths($naa)), 2, 'with two paths');
    is(scalar(my @disks = disks()), 2, 'and nothing else has been scanned');
    is(out('blockdev', '--getsize64', $path) + 0, 64 * $MIB);
    fill($path, 'a');
    ok(holds($path, 'a'), 'it can be written and read');
    $storage->activate_volume($disk);
    $storage->activate_volume($second);
    is(scalar(@disks = disks()), 4, 'the second disk comes through the same sessions');
    $storage->deactivate_volume($second);
    is(scalar(@disks = disks()), 2, 'and goes alone');
};

subtest 'resizing while it is here' => sub {
    $storage->volume_resize($disk, 128 * $MIB, 0);
    is(out('blockdev', '--getsize64', $path) + 0, 128 * $MIB, 'the map');
    is($initiator->bytes_of($_), 128 * $MIB, $_) for $initiator->paths($naa);
};

subtest 'what uses it is named' => sub {
    open(my $handle, '<', $path) or die "$path: $!";
    like(Plugin::error_of(sub { $storage->deactivate_volume($disk) }), qr/in use on this node: process $$ \(/, 'an open file');
    close($handle);
    out('mkfs.ext4', '-q', $path);
    mkdir '/tmp/mnt';
    out('mount', $path, '/tmp/mnt');
    like(Plugin::error_of(sub { $storage->free_image($disk) }), qr!mounted at /tmp/mnt!, 'a file system');
    out('umount', '/tmp/mnt');
    out('dmsetup', 'create', 'above', '--table', "0 2048 linear $path 0");
    like(Plugin::error_of(sub { $storage->create_base($disk) }), qr/device dm-\d+ is on it/, 'another device');
    out('dmsetup', 'remove', 'above');
    ok(-b $path, 'it is still there');
};

subtest 'snapshot and rollback' => sub {
    fill($path, 'b');
    $storage->volume_snapshot($disk, 'before');
    fill($path, 'c');
    my $old = $storage->map_volume($disk, 'before');
    ok(holds($old, 'b'), 'the snapshot can be read beside its volume');
    ok(!eval { fill($old, 'x'); 1 }, 'and not written');
    $storage->deactivate_volume($disk, 'before');
    $storage->volume_snapshot_rollback($disk, 'before');
    ok(!-e $path, 'it is released for the rollback');
    $storage->activate_volume($disk);
    ok(holds($path, 'b'), 'the contents of then');
    my $clone = $storage->clone_image($disk, 101, 'before');
    $storage->activate_volume($clone);
    ok(holds($storage->path($clone), 'b'), 'a clone has them, too');
    $storage->free_image($clone);
};

subtest 'export and import' => sub {
    open(my $stream, '+>', '/tmp/stream') or die;
    $storage->volume_export($stream, $disk, 'raw+size', undef, undef, 0);
    is(-s $stream, 128 * $MIB + 8, 'size and contents');
    sysseek($stream, 0, 0);
    is($storage->volume_import($stream, 'vm-102-disk-0', 'raw+size', undef, undef, 0, 0), 'flash:vm-102-disk-0');
    $storage->activate_volume('vm-102-disk-0');
    is(out('/bin/sh', '-c', 'cmp "$1" "$2" && echo same', 'sh', $path, $storage->path('vm-102-disk-0')), "same\n", 'the same bytes');
    $storage->free_image('vm-102-disk-0');
    unlink '/tmp/stream';
};

subtest 'a LUN number that another volume gets' => sub {
    my ($lun) = map { $_->{lun} } @{ $storage->find_volume($disk)->{connections} };
    $storage->free_image($disk);
    is(scalar(my @disks = disks()), 0, 'no device stays');
    $storage->activate_volume($second);
    is($storage->find_volume($second)->{connections}[0]{lun}, $lun, 'the number is used again');
    is(scalar(my @paths = $initiator->paths($storage->find_volume($second)->{naa})), 2, 'by devices of the new volume');
    fill($storage->path($second), 'd');
    $storage->free_image($second);
    is(scalar(@disks = disks()), 0);
};

done_testing;

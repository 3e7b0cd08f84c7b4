# Snapshots on a live array: of all disks of a guest at one moment, rollback, clones, and what containers' backups leave.

use strict;
use warnings;
use Test::More;

use Rig;
use Plugin;

my $array = Rig->start_array;
my $node = Rig::Node->new($array, 'node1')->enter;
my $storage = Plugin->new($array);
$storage->alloc_image(100, 'raw', undef, 64 << 10) for 0 .. 2;
$storage->alloc_image(100, 'raw', "vm-100-$_", 4096) for 'cloudinit', 'state-old';

# The LUN of a volume or snapshot on this node.
sub lun {
    my ($naa) = @_;
    my %luns = $node->luns;
    my ($lun) = grep { $luns{$_}{naa} eq $naa } keys %luns;
    return $lun;
}

sub io {
    my ($volname, $snap, @commands) = @_;
    $storage->activate_volume($volname, $snap);
    my $disk = PVE::Storage::Custom::AshlarPlugin->need_disk($storage->{id}, $storage->{scfg}, $volname, $snap);
    my $done = $array->io($node->{iqn}, lun($disk->{naa}), @commands);
    $storage->deactivate_volume($volname, $snap);
    return $done;
}

sub all_snapshots { return @{ $array->must('GET', 'snapshots')->{items} }; }

subtest 'all disks of a guest at one moment' => sub {
    $storage->volume_snapshot('vm-100-disk-0', 'a');
    my @taken = all_snapshots();
    is_deeply([sort map { $_->{source} } @taken], [map { "flash.1-vm-100-disk-$_" } 0 .. 2], 'disks, no saved memory, no cloud-init drive');
    is(scalar(keys %{ { map { $_->{set} => 1 } @taken } }), 1, 'in one set');
    is_deeply([keys %{ $storage->volume_snapshot_info('vm-100-disk-1') }], [], 'not shown before it is asked for');
    $storage->volume_snapshot('vm-100-disk-1', 'a');
    is(scalar(all_snapshots()), 3, 'the second disk finds its own');
    my $info = $storage->volume_snapshot_info('vm-100-disk-1')->{a};
    is($info->{'virtual-size'}, 64 << 20);
    ok($info->{timestamp} > 1_500_000_000 && $info->{id}, 'with time and id');
    like(Plugin::error_of(sub { $storage->volume_snapshot('vm-100-disk-0', 'a') }), qr/already/, 'a name that is taken');
};

subtest 'deleting takes along what was not requested' => sub {
    $storage->volume_snapshot_delete('vm-100-disk-0', 'a');
    is_deeply([map { $_->{source} } all_snapshots()], ['flash.1-vm-100-disk-1'], 'that of the unused disk went with it');
    $storage->volume_snapshot_delete('vm-100-disk-1', 'a');
    $storage->volume_snapshot_delete('vm-100-disk-1', 'a');
    is(scalar(all_snapshots()), 0, 'deleting twice is fine');
    ok(scalar @{ $array->must('GET', 'recycle-bin')->{items} } >= 3, 'all in the recycle bin');
};

subtest 'a set that another process left is not taken for a new one' => sub {
    $array->must('POST', 'snapshots', { sources => [{ volume => 'flash.1-vm-100-disk-2' }], suffix => 'crashed',
        labels => { 'pve.storage' => 'flash.1', 'pve.snapshot' => 'crashed', 'pve.pending' => '1', 'pve.vm' => '100' } });
    like(Plugin::error_of(sub { $storage->volume_snapshot('vm-100-disk-2', 'crashed') }), qr/delete it first/);
    $storage->volume_snapshot_delete('vm-100-disk-2', 'crashed');
    $storage->volume_snapshot('vm-100-disk-2', 'crashed');
    $storage->volume_snapshot_delete('vm-100-disk-2', 'crashed');
};

subtest 'rollback, to any snapshot, and reading snapshots' => sub {
    ok(io('vm-100-disk-0', undef, 'write -P 1 0 1M'));
    $storage->volume_snapshot('vm-100-disk-0', 'one');
    ok(io('vm-100-disk-0', undef, 'write -P 2 0 1M'));
    $storage->volume_resize('vm-100-disk-0', 128 << 20, 0);
    $storage->volume_snapshot('vm-100-disk-0', 'two');
    ok(io('vm-100-disk-0', undef, 'write -P 3 0 1M'));
    ok(io('vm-100-disk-0', 'one', 'read -P 1 0 1M'), 'a snapshot can be read');
    ok(!io('vm-100-disk-0', 'one', 'write -P 9 0 1M'), 'not written');
    is($storage->volume_rollback_is_possible('vm-100-disk-0', 'one', []), 1, 'also to one that is not the newest');
    $storage->volume_snapshot_rollback('vm-100-disk-0', 'one');
    ok(io('vm-100-disk-0', undef, 'read -P 1 0 1M'), 'the contents of then');
    is($storage->volume_size_info('vm-100-disk-0'), 64 << 20, 'and the size');
    $storage->volume_snapshot_rollback('vm-100-disk-0', 'two');
    ok(io('vm-100-disk-0', undef, 'read -P 2 0 1M'), 'and forth again');
    like(Plugin::error_of(sub { $storage->volume_rollback_is_possible('vm-100-disk-0', 'none', []) }), qr/no snapshot 'none'/);
    like(Plugin::error_of(sub { $storage->volume_snapshot_rollback('vm-100-disk-1', 'one') }), qr/no snapshot 'one'/, 'one that was not asked for');
};

subtest 'a new guest from a snapshot' => sub {
    is($storage->clone_image('vm-100-disk-0', 200, 'one'), 'vm-200-disk-0', 'on its own: no base in its name');
    ok(io('vm-200-disk-0', undef, 'read -P 1 0 1M'), 'with the contents');
    $storage->volume_snapshot_delete('vm-100-disk-0', 'one');
    ok(io('vm-200-disk-0', undef, 'read -P 1 0 1M'), 'also without the snapshot');
};

subtest 'backups of containers leave the snapshot activated' => sub {
    $storage->volume_snapshot('vm-200-disk-0', 'vzdump');
    my $path = $storage->map_volume('vm-200-disk-0', 'vzdump');
    is($path, $storage->path('vm-200-disk-0', 'vzdump'));
    is(scalar(my @devices = $node->devices), 3, 'two paths and a map are here');
    $storage->volume_snapshot_delete('vm-200-disk-0', 'vzdump');
    is_deeply([$node->devices], [], 'the deletion takes them away');
    is(scalar(keys %{ { $node->luns } }), 0, 'and the connection');

    $storage->volume_snapshot('vm-200-disk-0', 'vzdump');
    $storage->map_volume('vm-200-disk-0', 'vzdump');
    my ($map) = grep { /^dm-/ } $node->devices;
    $node->{open}{ $node->{initiator}->map_name($map) } = 1;
    like(Plugin::error_of(sub { $storage->volume_snapshot_delete('vm-200-disk-0', 'vzdump') }), qr/in use on this node/, 'not while it is read');
    $node->{open} = {};
    $storage->volume_snapshot_delete('vm-200-disk-0', 'vzdump');
};

subtest 'names of snapshots survive the disk\'s new name' => sub {
    $storage->volume_snapshot('vm-200-disk-0', 'keep');
    is($storage->rename_volume('vm-200-disk-0', 201), 'flash.1:vm-201-disk-0');
    is_deeply([keys %{ $storage->volume_snapshot_info('vm-201-disk-0') }], ['keep']);
    # The next disk of the old name takes a snapshot of the same name.
    $storage->alloc_image(200, 'raw', 'vm-200-disk-0', 4096);
    $storage->volume_snapshot('vm-200-disk-0', 'keep');
    is($storage->volume_snapshot_info('vm-200-disk-0')->{keep}{'virtual-size'}, 4 << 20, 'each disk has its own');
    is($storage->volume_snapshot_info('vm-201-disk-0')->{keep}{'virtual-size'}, 64 << 20);
    $storage->rename_snapshot('vm-201-disk-0', 'keep', 'kept');
    is_deeply([keys %{ $storage->volume_snapshot_info('vm-201-disk-0') }], ['kept']);
};

subtest 'a disk goes with its snapshots' => sub {
    $storage->free_image('vm-201-disk-0');
    is_deeply([grep { ($_->{labels}{'pve.snapshot'} // '') eq 'kept' } all_snapshots()], []);
    is_deeply($storage->volume_snapshot_info('vm-201-disk-0'), {}, 'no volume, no snapshots');
};

done_testing;

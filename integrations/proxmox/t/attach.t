# Attaching and detaching, with what goes wrong on nodes.

use strict;
use warnings;
use Test::More;

use Rig;
use Plugin;

my $array = Rig->start_array;
my ($one, $two) = map { Rig::Node->new($array, $_) } 'node1', 'node2';
$one->enter;
my $storage = Plugin->new($array);
$storage->alloc_image(100, 'raw', undef, 64 << 10) for 1 .. 3;
my $initiator = $one->{initiator};
my $naa = $storage->find_volume('vm-100-disk-0')->{naa};

subtest 'polling changes nothing' => sub {
    $one->commands;
    for (1 .. 3) {
        is($storage->check_connection, 1);
        is($storage->activate_storage({}), 1);
        my ($total, $free, $used, $active) = $storage->status({});
        ok($total > 0 && $free > 0 && $total >= $used && $active, 'status');
    }
    is_deeply([$one->commands], [], 'no command on the node');
    is($array->must('GET', 'hosts')->{total}, 0, 'no host on the array');
};

subtest 'activation makes the host, the sessions and the map' => sub {
    ok($storage->activate_volume('vm-100-disk-0'));
    my @commands = $one->commands;
    is(scalar(grep { /--login/ } @commands), 2, 'both portals');
    ok((grep { /node.session.scan -v manual/ } @commands), 'a log-in scans nothing by itself');
    ok(!(grep { /rescan$|-R\b/ && /iscsiadm/ } @commands), 'no rescan of sessions');
    my @scans = grep { m!scsi_host/host\d+/scan! } @commands;
    is(scalar @scans, 2, 'one scan for each session');
    like($_, qr/^write 0 0 [1-9]\d* >/, 'of one LUN, which is not 0') for @scans;
    is(scalar($initiator->paths($naa)), 2, 'two paths');
    my $map = $initiator->map_of($naa);
    is_deeply([$initiator->entries("/sys/block/$map/slaves")], [$initiator->paths($naa)], 'both are in the map');
    is($storage->path('vm-100-disk-0'), '/dev/disk/by-id/dm-uuid-mpath-3' . ($naa =~ /([0-9a-f]{32})/)[0]);
    is_deeply($storage->qemu_blockdev_options('vm-100-disk-0', '9.0', {}), { driver => 'host_device', filename => $storage->path('vm-100-disk-0') });

    $storage->activate_volume('vm-100-disk-0');
    is_deeply([grep { /login|scan|multipath/ } $one->commands], [], 'once more: nothing to do');
    $storage->activate_volume('vm-100-disk-1');
    is(scalar(grep { /--login/ } $one->commands), 0, 'the next disk uses the sessions');
    is($array->must('GET', 'hosts')->{items}[0]{name}, 'pve-node1');
};

subtest 'live migration: both nodes have the disk' => sub {
    $two->enter;
    $storage->activate_volume('vm-100-disk-0');
    ok($two->{initiator}->map_of($naa), 'here');
    ok($initiator->map_of($naa), 'and there');
    $one->enter;
    $storage->deactivate_volume('vm-100-disk-0');
    is($initiator->map_of($naa), undef, 'the source has let go');
    is(scalar(@{ $storage->find_volume('vm-100-disk-0')->{connections} }), 1, 'and is fenced: only the target is connected');
};

subtest 'what other nodes use is not touched' => sub {
    for my $case (
        [free => sub { $storage->free_image('vm-100-disk-0') }],
        [template => sub { $storage->create_base('vm-100-disk-0') }],
        [rollback => sub { $storage->volume_snapshot('vm-100-disk-0', 'a'); $storage->volume_snapshot_rollback('vm-100-disk-0', 'a') }],
    ) {
        like(Plugin::error_of($case->[1]), qr/connected to host pve-node2/, $case->[0]);
    }
    ok($storage->find_volume('vm-100-disk-0'), 'still there');
    $two->enter;
    $storage->deactivate_volume('vm-100-disk-0');
    $one->enter;
};

subtest 'what this node uses is not touched, and doubt counts as use' => sub {
    $storage->activate_volume('vm-100-disk-0');
    my $map = $initiator->map_of($naa);
    my $name = $initiator->map_name($map);
    chomp(my $number = $one->get("/sys/block/$map/dev"));
    my %cases = (
        'a virtual machine' => [sub { $one->{open}{$name} = 1 }, sub { delete $one->{open}{$name} }, qr/open 1 times/],
        'a file system' => [
            sub { $one->put('/proc/self/mountinfo', "40 1 $number / /mnt rw - ext4 /dev/mapper/x rw\n") },
            sub { $one->put('/proc/self/mountinfo', "22 1 8:1 / / rw - ext4 /dev/root rw\n") }, qr!mounted at /mnt!],
        'a volume group' => [
            sub { mkdir "$one->{root}/sys/block/$map/holders/dm-9" }, sub { rmdir "$one->{root}/sys/block/$map/holders/dm-9" }, qr/dm-9 is on it/],
        'dmsetup fails' => [sub { $one->rule(qr/^dmsetup/, { code => 1, out => '', err => 'busy' }) }, sub { $one->no_rules }, qr/dmsetup.*failed/],
        'dmsetup makes no sense' => [sub { $one->rule(qr/^dmsetup/, { code => 0, out => '', err => '' }) }, sub { $one->no_rules }, qr/can't be found out/],
        'mounts can\'t be read' => [
            sub { $one->drop('/proc/self/mountinfo') },
            sub { $one->put('/proc/self/mountinfo', "22 1 8:1 / / rw - ext4 /dev/root rw\n") }, qr/can't be found out/],
        'dmsetup hangs' => [sub { $one->rule(qr/^dmsetup/, sub { die "did not end within 30 s\n" }) }, sub { $one->no_rules }, qr/did not end/],
    );
    for my $case (sort keys %cases) {
        my ($begin, $end, $pattern) = @{ $cases{$case} };
        $begin->();
        like(Plugin::error_of(sub { $storage->$_('vm-100-disk-0') }), $pattern, "$case: $_") for qw(deactivate_volume free_image create_base);
        ok($initiator->map_of($naa) && $storage->find_volume('vm-100-disk-0'), "$case: everything is there");
        $end->();
    }
    $storage->deactivate_volume('vm-100-disk-0');
    is_deeply([$initiator->paths($naa)], [], 'without users it goes');
};

subtest 'a device name that belongs to another disk by now is not deleted' => sub {
    $storage->activate_volume('vm-100-disk-0');
    my ($first) = $initiator->paths($naa);
    my $other = 'naa.' . 'f' x 32;
    # The name goes to another disk after the paths were listed.
    $one->rule(qr/^blockdev --flushbufs \/dev\/\Q$first\E$/, sub {
        $one->put("/sys/block/$first/device/wwid", "$other\n");
        return { code => 0, out => '', err => '' };
    });
    $storage->deactivate_volume('vm-100-disk-0');
    is($initiator->wwid($first), $other, 'the other disk is still there');
    $one->no_rules;
    $one->drop("/sys/block/$first");
    $one->drop('/sys/class/scsi_device');
};

subtest 'a LUN number that another volume had: the old device goes first' => sub {
    $storage->activate_volume('vm-100-disk-2');
    my $old = $storage->find_volume('vm-100-disk-2');
    my ($lun) = map { $_->{lun} } @{ $old->{connections} };
    my ($disk) = $initiator->paths($old->{naa});
    # An operator disconnected it on the array, unknown to the node, and the number was given away.
    $array->must('DELETE', "connections/$old->{id}/pve-node1");
    $array->must('POST', 'connections', { volume => 'flash.1-vm-100-disk-0', host => 'pve-node1', lun => $lun });
    $one->rule(qr/device\/rescan/, { code => 0, out => '', err => '' });
    $one->{open}{ $initiator->map_name($initiator->map_of($old->{naa})) } = 1;
    like(Plugin::error_of(sub { $storage->activate_volume('vm-100-disk-0') }), qr/still is \Q@{[lc $old->{naa}]}\E, which is in use/, 'not while it is used');
    $one->{open} = {};
    $initiator->detach($old->{naa}, 'the old one');
    $one->no_rules;
    ok($storage->activate_volume('vm-100-disk-0'), 'then the number is the new volume\'s');
    is(scalar($initiator->paths($naa)), 2);
    $storage->deactivate_volume('vm-100-disk-0');
};

subtest 'a LUN that appears late is scanned for again' => sub {
    my $scans = 0;
    $one->rule(qr/scsi_host.*scan/, sub {
        return $scans++ < 2 ? { code => 0, out => '', err => '' } : $one->write(substr($one->{log}[-1], index($one->{log}[-1], '/')), $one->{log}[-1] =~ /^write (.*) >/);
    });
    ok($storage->activate_volume('vm-100-disk-0'), 'found');
    ok($scans > 2, 'by another scan');
    $one->no_rules;
    $storage->deactivate_volume('vm-100-disk-0');
};

subtest 'one portal of two is enough' => sub {
    my $three = Rig::Node->new($array, 'node3')->enter;
    my $refused = $array->{ready}{portals}[1];
    $three->rule(qr/-p \Q$refused\E --login/, { code => 8, out => '', err => 'connection timed out' });
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    ok($storage->activate_volume('vm-100-disk-0'), 'attached');
    like("@warnings", qr/fewer paths.*\Q$refused\E/, 'and said');
    is(scalar($three->{initiator}->paths($naa)), 1);
    $storage->deactivate_volume('vm-100-disk-0');
    my $four = Rig::Node->new($array, 'node4')->enter;
    $four->rule(qr/--login/, { code => 8, out => '', err => 'connection timed out' });
    like(Plugin::error_of(sub { $storage->activate_volume('vm-100-disk-0') }), qr/no iSCSI session/, 'none is not');
    $storage->deactivate_volume('vm-100-disk-0');
    $one->enter;
};

subtest 'what an administrator connected is used as it is' => sub {
    $array->must('POST', 'connections', { volume => 'flash.1-vm-100-disk-1', host => 'pve-node2', lun => 0 });
    $two->enter;
    ok($storage->activate_volume('vm-100-disk-1'), 'LUN 0');
    is(scalar($two->{initiator}->paths($storage->find_volume('vm-100-disk-1')->{naa})), 2);
    $storage->deactivate_volume('vm-100-disk-1');
    $array->must('POST', 'host-groups', { name => 'cluster', hosts => ['pve-node2'] });
    $array->must('POST', 'connections', { volume => 'flash.1-vm-100-disk-2', host_group => 'cluster' });
    ok($storage->activate_volume('vm-100-disk-2'), 'through a host group');
    $storage->deactivate_volume('vm-100-disk-2');
    is(scalar(@{ $storage->find_volume('vm-100-disk-2')->{connections} }), 1, 'which stays connected');
    $one->enter;
};

subtest 'without multipath' => sub {
    my $single = Plugin->new($array, 'ashlar-multipath' => 0);
    $one->commands;
    ok($single->activate_volume('vm-100-disk-0'));
    is($single->path('vm-100-disk-0'), '/dev/disk/by-id/wwn-0x' . ($naa =~ /([0-9a-f]{32})/)[0]);
    is_deeply([grep { /multipath/ } $one->commands], [], 'it is not called');
    # Only the open files of processes show that a raw disk is in use.
    $one->drop('/proc/1');
    $one->drop('/proc/self');
    like(Plugin::error_of(sub { $single->deactivate_volume('vm-100-disk-0') }), qr/can't be found out/, 'if they can\'t be read, it is');
    $one->put('/proc/self/mountinfo', '');
    $one->put('/proc/1/comm', 'init');
    ok($single->deactivate_volume('vm-100-disk-0'));
};

done_testing;

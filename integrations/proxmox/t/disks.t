# The life of disks, templates and clones on a live array.

use strict;
use warnings;
use Test::More;

use Rig;
use Plugin;

my $array = Rig->start_array;
my $node = Rig::Node->new($array, 'node1')->enter;
my $storage = Plugin->new($array);

subtest 'allocation, sizes, listing' => sub {
    is($storage->alloc_image(100, 'raw', undef, 4 << 20), 'vm-100-disk-0', 'the first free name');
    is($storage->alloc_image(100, 'raw', undef, 1 << 20), 'vm-100-disk-1', 'the next');
    is($storage->volume_size_info('vm-100-disk-0'), 4 << 30, 'KiB are given, bytes reported');
    like(Plugin::error_of(sub { $storage->alloc_image(100, 'qcow2', undef, 1024) }), qr/raw/, 'no other formats');
    like(Plugin::error_of(sub { $storage->alloc_image(100, 'raw', 'vm-101-disk-0', 1024) }), qr/illegal name/);
    like(Plugin::error_of(sub { $storage->alloc_image(100, 'raw', 'vm-100-disk-0', 1024) }), qr/exists already/, 'a name that is taken');
    # EFI variables, TPM state, saved memory, cloud-init: the same size everywhere, as moves compare sizes.
    for my $row (['disk-9', 528, 1 << 20], ['disk-8', 4096, 4 << 20], ['state-a', 513, 1 << 20], ['cloudinit', 4096, 4 << 20]) {
        my ($name, $kib, $bytes) = @$row;
        is($storage->alloc_image(101, 'raw', "vm-101-$name", $kib), "vm-101-$name");
        is($storage->volume_size_info("vm-101-$name"), $bytes, "$name: size");
        my ($listed) = grep { $_->{volid} eq "flash.1:vm-101-$name" } @{ $storage->list_images(101) };
        is($listed->{size}, $bytes, "$name: listed size");
        is($listed->{vmid}, 101);
    }
    is_deeply($storage->volids(100), ['flash.1:vm-100-disk-0', 'flash.1:vm-100-disk-1'], 'of one guest');
    is(scalar @{ $storage->list_images }, 6, 'of all guests');
    is_deeply([map { $_->{volid} } @{ $storage->list_images(undef, ['flash.1:vm-100-disk-1', 'flash.1:vm-7-disk-0']) }],
        ['flash.1:vm-100-disk-1'], 'of a list');
    my $long = 'vm-100-state-' . 'x' x 60;
    is($storage->alloc_image(100, 'raw', $long, 1024), $long, 'longer than the array has names');
    is_deeply([grep { /xxx/ } @{ $storage->volids(100) }], ["flash.1:$long"], 'is listed under its own name');
    $storage->free_image($long);
};

subtest 'freeing goes to the recycle bin and frees the name' => sub {
    my $id = $storage->find_volume('vm-100-disk-1')->{id};
    $storage->free_image('vm-100-disk-1');
    is($storage->find_volume('vm-100-disk-1'), undef, 'gone');
    my @bin = @{ $array->must('GET', 'recycle-bin')->{items} };
    ok((grep { $_->{id} eq $id } @bin), 'in the recycle bin');
    is($storage->free_image('vm-100-disk-1'), undef, 'freeing it once more is fine');
    is($storage->alloc_image(100, 'raw', 'vm-100-disk-1', 2048), 'vm-100-disk-1', 'the name is free at once');
};

subtest 'volumes of others are left alone' => sub {
    $array->must('POST', 'volumes', { name => 'flash.1-vm-300-disk-0', size => 1 << 20 });
    is_deeply($storage->volids(300), [], 'not listed');
    like(Plugin::error_of(sub { $storage->free_image('vm-300-disk-0') }), qr/belongs to nobody/, 'not deleted');
    like(Plugin::error_of(sub { $storage->alloc_image(300, 'raw', 'vm-300-disk-0', 1024) }), qr/exists already/, 'not adopted');
    my $other = Plugin->new($array, id => 'second', 'ashlar-prefix' => 'flash.1');
    is_deeply($other->volids(100), ['second:vm-100-disk-0', 'second:vm-100-disk-1'], 'a storage of the same prefix is the same');
    my $third = Plugin->new($array, id => 'third');
    is_deeply($third->volids(100), [], 'one of another prefix is another');
    $storage = Plugin->new($array);
};

subtest 'templates and linked clones' => sub {
    $storage->alloc_image(102, 'raw', undef, 64 << 10);
    $storage->activate_volume('vm-102-disk-0');
    my ($lun) = keys %{ { $node->luns } };
    ok($array->io($node->{iqn}, $lun, 'write -P 7 0 1M'), 'a template with contents');
    is($storage->create_base('vm-102-disk-0'), 'base-102-disk-0');
    is_deeply([$node->devices], [], 'it is released');
    is_deeply($storage->volids(102), ['flash.1:base-102-disk-0']);
    like(Plugin::error_of(sub { $storage->create_base('base-102-disk-0') }), qr/already/);

    is($storage->clone_image('base-102-disk-0', 104), 'base-102-disk-0/vm-104-disk-0');
    # As the configuration has it: otherwise `qm rescan` offers the disk in use as an unused one.
    is_deeply($storage->volids(104), ['flash.1:base-102-disk-0/vm-104-disk-0'], 'listed with its base');
    is($storage->list_images(104)->[0]{parent}, 'base-102-disk-0');
    $storage->activate_volume('base-102-disk-0/vm-104-disk-0');
    ($lun) = keys %{ { $node->luns } };
    ok($array->io($node->{iqn}, $lun, 'read -P 7 0 1M', 'write -P 8 0 1M'), 'it has the contents and can be written');
    $storage->deactivate_volume('base-102-disk-0/vm-104-disk-0');

    $storage->activate_volume('base-102-disk-0');
    ($lun) = keys %{ { $node->luns } };
    ok($array->io($node->{iqn}, $lun, 'read -P 7 0 1M'), 'the base keeps its own');
    ok(!$array->io($node->{iqn}, $lun, 'write -P 9 0 1M'), 'the array refuses writes to it');
    $storage->deactivate_volume('base-102-disk-0');

    is($storage->rename_volume('base-102-disk-0/vm-104-disk-0', 105), 'flash.1:base-102-disk-0/vm-105-disk-0', 'reassigned to another guest');
    is_deeply($storage->volids(104), []);
    is_deeply($storage->volids(105), ['flash.1:base-102-disk-0/vm-105-disk-0'], 'still a clone of its base');
    like(Plugin::error_of(sub { $storage->rename_volume('vm-100-disk-0', 100, 'vm-100-disk-1') }), qr/exists already/, 'onto a name that is taken');
    like(Plugin::error_of(sub { $storage->clone_image('vm-100-disk-0', 106) }), qr/base volume or of a snapshot/);
};

subtest 'resizing reaches the device of a stopped guest or a container' => sub {
    $storage->activate_volume('vm-100-disk-0');
    my $naa = $storage->find_volume('vm-100-disk-0')->{naa};
    is($storage->volume_resize('vm-100-disk-0', 5 << 30, 0), 1);
    is($storage->volume_size_info('vm-100-disk-0'), 5 << 30);
    my $initiator = $node->{initiator};
    is($initiator->bytes_of($_), 5 << 30, "$_ has the new size") for $initiator->paths($naa), $initiator->map_of($naa);
    is($storage->volume_resize('vm-100-disk-0', 5 << 30, 0), 1, 'once more is fine');
    like(Plugin::error_of(sub { $storage->volume_resize('vm-100-disk-0', 1 << 30, 0) }), qr/can't be made smaller/);
    like(Plugin::error_of(sub { $storage->volume_resize('vm-100-disk-0', 6 << 30, 0, 'a') }), qr/snapshot can't be resized/);
    # Grown by another node since: activation compares.
    $array->must('PATCH', 'volumes/flash.1-vm-100-disk-0', { size => 6 << 30 });
    $storage->activate_volume('vm-100-disk-0');
    is($initiator->bytes_of($initiator->map_of($naa)), 6 << 30, 'activation brings the device to the size');
    $storage->deactivate_volume('vm-100-disk-0');
};

subtest 'export and import' => sub {
    is_deeply([$storage->volume_export_formats('vm-100-disk-1', undef, undef, 0)], ['raw+size']);
    is_deeply([$storage->volume_export_formats('vm-100-disk-1', undef, undef, 1)], [], 'not with snapshots');
    is_deeply([$storage->volume_import_formats('vm-100-disk-1', undef, 'base', 0)], [], 'not incremental');
    my $contents = ("\0" x 65536) . ('a' x 65536) . ("\0" x 65536) . 'tail';
    my $stream = pack('Q<', 2 << 20) . $contents;
    open(my $file, '+>', undef) or die;
    syswrite($file, $stream);
    sysseek($file, 0, 0);
    local $SIG{__WARN__} = sub { };
    is($storage->volume_import($file, 'vm-100-disk-1', 'raw+size', undef, undef, 0, 1), 'flash.1:vm-100-disk-2', 'renamed as the name is taken');
    is($storage->volume_size_info('vm-100-disk-2'), 2 << 20, 'with the size of the stream');
    is_deeply([$node->devices], [], 'released');
    (my $naa = $storage->find_volume('vm-100-disk-2')->{naa}) =~ s/naa\.//;
    is($node->get("/dev/luns/$naa"), $contents, 'its contents are on the device');

    sysseek($file, 0, 0);
    like(Plugin::error_of(sub { $storage->volume_import($file, 'vm-100-disk-1', 'raw+size', undef, undef, 0, 0) }), qr/exists already/);
    is($storage->find_volume('vm-100-disk-1')->{size}, 2 << 20, 'and is untouched');

    open(my $out, '+>', undef) or die;
    $storage->volume_export($out, 'vm-100-disk-2', 'raw+size', undef, undef, 0);
    sysseek($out, 0, 0);
    sysread($out, my $exported, length($stream) + 1);
    is($exported, $stream, 'exported as it was imported');

    $storage->deactivate_volume('vm-100-disk-2');
    sysseek($file, 0, 0);
    $node->rule(qr/--login|scan$/, { code => 1, out => '', err => 'no such device' });
    like(Plugin::error_of(sub { $storage->volume_import($file, 'vm-100-disk-7', 'raw+size', undef, undef, 0, 0) }), qr/can't write/, 'an import that fails');
    is($storage->find_volume('vm-100-disk-7'), undef, 'leaves no half volume');
    $node->no_rules;
};

done_testing;

# What Proxmox VE's storage layer checks when it loads a plug-in, and what needs no array.

use strict;
use warnings;
use Test::More;

use PVE::Storage;
use PVE::Storage::Plugin;
use PVE::Storage::Custom::AshlarPlugin;

my $CLASS = 'PVE::Storage::Custom::AshlarPlugin';

subtest 'the version of the interface is never newer than the node\'s' => sub {
    # Proxmox VE refuses a newer one, and one that is more than APIAGE older.
    for my $row ([8, 9], [9, 9], [10, 10], [11, 11], [12, 12], [13, 13], [14, 14], [15, 15], [16, 15], [20, 15]) {
        local $PVE::Storage::API = $row->[0];
        is($CLASS->api, $row->[1], "node has $row->[0]");
    }
};

subtest 'it registers and its configuration is valid' => sub {
    ok($CLASS->isa('PVE::Storage::Plugin'), 'derived from the base');
    $CLASS->register;
    is(PVE::Storage::Plugin->lookup('ashlar'), $CLASS, 'by its type');
    ok(PVE::Storage::Plugin->init, 'no property is defined twice, none is missing');
    ok((grep { $_ eq 'ashlar' } @PVE::Storage::Plugin::SHARED_STORAGE), 'shared');
    ok($CLASS->plugindata->{'sensitive-properties'}{password}, 'the token is kept out of storage.cfg');
    ok($CLASS->options->{password}, 'under the name that versions before sensitive-properties keep secret, too');
};

subtest 'names' => sub {
    my @good = (
        ['vm-100-disk-0', 'vm-100-disk-0', 100, undef, undef, ''],
        ['base-102-disk-0', 'base-102-disk-0', 102, undef, undef, 1],
        ['base-102-disk-0/vm-104-disk-0', 'vm-104-disk-0', 104, 'base-102-disk-0', 102, ''],
        ['vm-100-state-before_upgrade', 'vm-100-state-before_upgrade', 100, undef, undef, ''],
        ['vm-100-cloudinit', 'vm-100-cloudinit', 100, undef, undef, ''],
    );
    for my $row (@good) {
        my ($name, @want) = @$row;
        is_deeply([$CLASS->parse_volname($name)], ['images', @want, 'raw'], $name);
    }
    for my $bad ('disk', 'vm-x-disk-0', 'vm-1-', 'vm-1-disk/..', 'base-1-a/base-2-b/vm-3-c', "vm-1-disk\n", 'vm-100-../../x', '') {
        ok(!eval { $CLASS->parse_volname($bad); 1 }, "refused: $bad");
    }
};

subtest 'names on the array' => sub {
    is(Ashlar::Array::object_name('flash.1', 'vm-100-disk-0'), 'flash.1-vm-100-disk-0', 'readable');
    my $long = Ashlar::Array::object_name('p', 'vm-100-state-' . 'x' x 60);
    # p-vm-100-state-xx… by `sha256sum`, in base 32 (RFC 4648), lower case, the first 26 characters.
    is($long, 'pve-2oup4bpzmso2ixra7jkxoklcc6', 'the documented hash when too long');
    isnt($long, Ashlar::Array::object_name('p', 'vm-100-state-' . 'x' x 61), 'different names differ');
};

subtest 'features' => sub {
    my $has = sub { $CLASS->volume_has_feature({}, $_[0], 's', @_[1, 2]) ? 1 : 0 };
    my @table = (
        # feature, current, base, snapshot
        ['snapshot', 1, 0, 0], ['clone', 0, 1, 1], ['template', 1, 0, 0], ['copy', 1, 1, 1], ['sparseinit', 1, 1, 0],
        ['rename', 1, 0, 0], ['replicate', 0, 0, 0], ['nonsense', 0, 0, 0],
    );
    for my $row (@table) {
        my ($feature, @want) = @$row;
        my @got = ($has->($feature, 'vm-1-disk-0'), $has->($feature, 'base-1-disk-0'), $has->($feature, 'vm-1-disk-0', 'a'));
        is_deeply(\@got, \@want, $feature);
    }
};

subtest 'the prefix' => sub {
    is(PVE::Storage::Custom::AshlarPlugin::prefix('my.store', {}), 'my.store', 'ids may have dots');
    is(PVE::Storage::Custom::AshlarPlugin::prefix('x', { 'ashlar-prefix' => 'east' }), 'east');
    ok(!eval { PVE::Storage::Custom::AshlarPlugin::prefix('x' x 40, {}); 1 }, 'too long');
};

subtest 'times' => sub {
    is(PVE::Storage::Custom::AshlarPlugin::seconds('1970-01-02T00:00:01Z'), 86401);
    is(PVE::Storage::Custom::AshlarPlugin::seconds('2026-11-24T15:00:00.123Z'), 1795532400);
};

done_testing;

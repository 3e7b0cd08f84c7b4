package PVE::Storage::Custom::AshlarPlugin;

# Proxmox VE storage plug-in: every virtual disk is a volume of an Ashlar array, connected to a node over iSCSI only while
# the node uses it. Thin, shared, with snapshots and clones made by the array.
#
# Volumes are found by the label `pve.storage`, so whatever else is on the array is never touched. Nothing is ever
# eradicated: what is deleted goes to the array's recycle bin.

use strict;
use warnings;

use JSON::PP ();
use Time::HiRes qw(time);

use PVE::INotify;
use PVE::Storage;
use PVE::Storage::Plugin;
use PVE::Tools qw(run_command);

use Ashlar::Array;
use Ashlar::Error;
use Ashlar::Initiator;

use base qw(PVE::Storage::Plugin);

push @PVE::Storage::Plugin::SHARED_STORAGE, 'ashlar';

# The versions of the storage API that these methods were written for; docs/operating/proxmox.md has the history.
my $OLDEST_API = 9;
my $NEWEST_API = 15;

my $MIN_VOLUME_BYTES = 1 << 20;
my $BLOCK_BYTES = 512;
my $MAX_PREFIX_CHARS = 32;

# pvestatd asks every 10 s for each storage, one after the other: an array that does not answer must not hold up the rest.
my $STATUS_TIMEOUT_SECONDS = 4;
my $STATUS_KEEP_SECONDS = 5;
my $BACK_OFF_SECONDS = 60;

our $PRIVATE = '/etc/pve/priv/storage';
our $INITIATOR = Ashlar::Initiator->new;

# --- what the storage is

sub api {
    my $host = eval { PVE::Storage::APIVER() } // $OLDEST_API;
    return $host < $NEWEST_API ? ($host > $OLDEST_API ? $host : $OLDEST_API) : $NEWEST_API;
}

sub type { return 'ashlar'; }

sub plugindata {
    return {
        content => [{ images => 1, rootdir => 1, none => 1 }, { images => 1, rootdir => 1 }],
        format => [{ raw => 1 }, 'raw'],
        'sensitive-properties' => { password => 1 },
    };
}

sub properties {
    return {
        'ashlar-url' => {
            description => 'Address of the array\'s API, such as https://10.0.0.5.',
            type => 'string',
        },
        'ashlar-fingerprint' => {
            description => 'SHA-256 fingerprint of the array\'s certificate, if no authority has signed it.',
            type => 'string',
            pattern => '(?:[A-Fa-f0-9]{2}:?){31}[A-Fa-f0-9]{2}',
        },
        'ashlar-ca-file' => {
            description => 'File with the certificates of the authorities that sign the array\'s certificate.',
            type => 'string',
        },
        'ashlar-prefix' => {
            description => 'First part of the volumes\' names on the array; by default the storage\'s id.'
                . ' Clusters that share an array need different ones.',
            type => 'string',
            pattern => '[A-Za-z0-9][A-Za-z0-9_.-]{0,31}',
        },
        'ashlar-group' => {
            description => 'Volume group of new volumes on the array, for its QoS limits and data reduction settings.',
            type => 'string',
        },
        'ashlar-multipath' => {
            description => 'Use device-mapper multipath (default) or a single path.',
            type => 'boolean',
        },
    };
}

sub options {
    return {
        'ashlar-url' => { fixed => 1 },
        'ashlar-prefix' => { optional => 1, fixed => 1 },
        'ashlar-fingerprint' => { optional => 1 },
        'ashlar-ca-file' => { optional => 1 },
        'ashlar-group' => { optional => 1 },
        'ashlar-multipath' => { optional => 1 },
        password => { optional => 1 },
        nodes => { optional => 1 },
        disable => { optional => 1 },
        content => { optional => 1 },
        shared => { optional => 1 },
        bwlimit => { optional => 1 },
    };
}

sub get_formats { return { default => 'raw', valid => { raw => 1 } }; }

# --- configuration

sub token_file {
    my ($storeid) = @_;
    return "$PRIVATE/$storeid.pw";
}

sub keep_token {
    my ($storeid, $token) = @_;
    $token =~ s/\s+//g;
    mkdir $PRIVATE;
    PVE::Tools::file_set_contents(token_file($storeid), "$token\n", 0600);
    return;
}

sub on_add_hook {
    my ($class, $storeid, $scfg, %sensitive) = @_;
    my $token = $sensitive{password} // die "an API token of the array is needed: --password TOKEN\n";
    prefix($storeid, $scfg);
    # Before anything is kept: a wrong address, token or version is an error of the command that gave it.
    array($storeid, $scfg, $token)->status(timeout => $STATUS_TIMEOUT_SECONDS);
    keep_token($storeid, $token);
    return;
}

sub on_update_hook {
    my ($class, $storeid, $scfg, %sensitive) = @_;
    return if !exists $sensitive{password};
    die "a storage on an array needs a token: give a new one instead of deleting it\n" if !defined $sensitive{password};
    keep_token($storeid, $sensitive{password});
    return;
}

sub on_update_hook_full {
    my ($class, $storeid, $scfg, $update, $delete, $sensitive) = @_;
    my %now = (%$scfg, %{ $update // {} });
    delete @now{ @{ $delete // [] } };
    my %secret = %{ $sensitive // {} };
    die "a storage on an array needs a token: give a new one instead of deleting it\n"
        if exists $secret{password} && !defined $secret{password};
    # Whatever is new must work before it is written.
    array($storeid, \%now, $secret{password})->status(timeout => $STATUS_TIMEOUT_SECONDS) if !$now{disable};
    keep_token($storeid, $secret{password}) if defined $secret{password};
    return;
}

sub on_delete_hook {
    my ($class, $storeid, $scfg) = @_;
    unlink token_file($storeid);
    return;
}

sub prefix {
    my ($storeid, $scfg) = @_;
    my $prefix = $scfg->{'ashlar-prefix'} // $storeid;
    die "\"$prefix\" can't begin the names of volumes: give another one with --ashlar-prefix, at most $MAX_PREFIX_CHARS "
        . "letters, digits, '-', '_' and '.'\n"
        if length($prefix) > $MAX_PREFIX_CHARS || $prefix !~ /\A[A-Za-z0-9][A-Za-z0-9_.-]*\z/;
    return $prefix;
}

# Clients by what makes them, so that the array's version is asked once in a process and again after a change.
my %clients;

sub array {
    my ($storeid, $scfg, $token) = @_;
    if (!defined $token) {
        open(my $file, '<', token_file($storeid))
            or die "the token of storage $storeid is missing: set it with \"pvesm set $storeid --password TOKEN\"\n";
        $token = <$file> // '';
        close($file);
    }
    $token =~ s/\s+//g;
    my @parts = ($scfg->{'ashlar-url'}, $token, $scfg->{'ashlar-fingerprint'} // '', $scfg->{'ashlar-ca-file'} // '');
    return $clients{ join "\0", $storeid, @parts } //= Ashlar::Array->new(
        label => "$scfg->{'ashlar-url'} of storage $storeid",
        url => $parts[0], token => $parts[1], fingerprint => $parts[2], ca_file => $parts[3],
    );
}

sub multipath { return $_[0]->{'ashlar-multipath'} // 1; }

# --- status: the only calls that come without anybody's command, every few seconds from every node

# storage => {at, status, error}: the last answer, and how long there was none.
my %last;

sub cheap_status {
    my ($storeid, $scfg) = @_;
    my $last = $last{$storeid};
    my $now = time();
    if ($last) {
        die $last->{error} if $last->{error} && $now - $last->{at} < $BACK_OFF_SECONDS;
        return $last->{status} if $last->{status} && $now - $last->{at} < $STATUS_KEEP_SECONDS;
    }
    my $status = eval { array($storeid, $scfg)->status(timeout => $STATUS_TIMEOUT_SECONDS) };
    my $error = $@;
    # Only silence costs time. A refusal comes at once, and a corrected token should work at once.
    my $silent = !$status && Ashlar::Error::is($error, 'unreachable');
    $last{$storeid} = { at => time(), status => $status, error => $silent ? $error : undef };
    die $error if !$status;
    return $status;
}

sub check_connection {
    my ($class, $storeid, $scfg) = @_;
    return cheap_status($storeid, $scfg)->{state} eq 'online' ? 1 : 0;
}

# Changes nothing, here or on the array.
sub activate_storage { return 1; }

sub deactivate_storage { return 1; }

sub status {
    my ($class, $storeid, $scfg, $cache) = @_;
    my $status = cheap_status($storeid, $scfg);
    my $capacity = $status->{capacity};
    return ($capacity->{total}, $capacity->{free}, $capacity->{used}, $status->{state} eq 'online' ? 1 : 0);
}

sub get_identity {
    my ($class, $scfg, $storeid) = @_;
    return cheap_status($storeid, $scfg)->{id};
}

# --- names

# Returns (vtype, name, vmid, basename, basevmid, isBase, format).
sub parse_volname {
    my ($class, $volname) = @_;
    die "\"$volname\" is not a volume of this storage: their names are vm-ID-NAME, base-ID-NAME or base-ID-NAME/vm-ID-NAME\n"
        if $volname !~ m!\A(?:((?:base)-(\d+)-[A-Za-z0-9_.-]+)/)?((vm|base)-(\d+)-[A-Za-z0-9_.-]+)\z!;
    return ('images', $3, $5, $1, $2, $4 eq 'base' ? 1 : '', 'raw');
}

# The volume's name as configurations have it.
sub full_name {
    my ($volume) = @_;
    my $labels = $volume->{labels};
    my $base = $labels->{'pve.base'};
    return $base ? "$base/$labels->{'pve.name'}" : $labels->{'pve.name'};
}

sub name_labels {
    my ($prefix, $name, $vmid) = @_;
    return ('pve.storage' => $prefix, 'pve.name' => $name, 'pve.vm' => "$vmid", name => "$prefix-$name");
}

# The volume of the array that a name stands for; undef if there is none.
sub find_volume {
    my ($class, $storeid, $scfg, $volname) = @_;
    my ($name) = ($class->parse_volname($volname))[1];
    my $prefix = prefix($storeid, $scfg);
    my $array = array($storeid, $scfg);
    my $volume = $array->find('volumes/' . Ashlar::Array::object_name($prefix, $name)) // return undef;
    my $owner = $volume->{labels}{'pve.storage'} // 'nobody';
    die "the volume $volume->{name} on the array belongs to $owner, not to storage $storeid: give the storage a prefix of "
        . "its own (ashlar-prefix)\n" if $owner ne $prefix || ($volume->{labels}{'pve.name'} // '') ne $name;
    return $volume;
}

sub need_volume {
    my ($class, $storeid, $scfg, $volname) = @_;
    return $class->find_volume($storeid, $scfg, $volname) // die "volume '$storeid:$volname' does not exist on the array\n";
}

# Snapshots of a volume by the names that Proxmox VE gave them. Those that were taken along with other disks and not asked
# for (yet) have the label `pve.pending`.
sub snapshots_of {
    my ($storeid, $scfg, $volume) = @_;
    my $query = Ashlar::Array::label_query('pve.storage' => prefix($storeid, $scfg));
    my @snapshots = array($storeid, $scfg)->list("snapshots?filter=source_id=$volume->{id}&$query");
    return map { $_->{labels}{'pve.snapshot'} => $_ } grep { defined $_->{labels}{'pve.snapshot'} } @snapshots;
}

sub need_snapshot {
    my ($storeid, $scfg, $volume, $snap) = @_;
    my %snapshots = snapshots_of($storeid, $scfg, $volume);
    my $snapshot = $snapshots{$snap};
    die "volume '$storeid:" . full_name($volume) . "' has no snapshot '$snap'\n"
        if !$snapshot || $snapshot->{labels}{'pve.pending'};
    return $snapshot;
}

# The volume, or its snapshot.
sub need_disk {
    my ($class, $storeid, $scfg, $volname, $snap) = @_;
    my $volume = $class->need_volume($storeid, $scfg, $volname);
    return defined $snap ? need_snapshot($storeid, $scfg, $volume, $snap) : $volume;
}

# --- paths

sub path {
    my ($class, $scfg, $volname, $storeid, $snapname) = @_;
    my ($vtype, $name, $vmid) = $class->parse_volname($volname);
    my $disk = $class->need_disk($storeid, $scfg, $volname, $snapname);
    my $path = $INITIATOR->device_path($disk->{naa}, multipath($scfg));
    return wantarray ? ($path, $vmid, $vtype) : $path;
}

sub filesystem_path {
    my ($class, $scfg, $volname, $snapname) = @_;
    die "volumes of an array have no path in a file system: \"path\" needs the storage's id\n";
}

sub qemu_blockdev_options {
    my ($class, $scfg, $storeid, $volname, $machine_version, $options) = @_;
    my $path = $class->path($scfg, $volname, $storeid, ($options // {})->{'snapshot-name'});
    return { driver => 'host_device', filename => $path };
}

sub volume_size_info {
    my ($class, $scfg, $storeid, $volname, $timeout) = @_;
    my $volume = $class->need_volume($storeid, $scfg, $volname);
    return wantarray ? ($volume->{size}, 'raw', $volume->{mapped}, undef) : $volume->{size};
}

sub list_images {
    my ($class, $storeid, $scfg, $vmid, $vollist, $cache) = @_;
    my %labels = ('pve.storage' => prefix($storeid, $scfg));
    $labels{'pve.vm'} = "$vmid" if defined $vmid && !$vollist;
    my @volumes = array($storeid, $scfg)->list('volumes?' . Ashlar::Array::label_query(%labels));
    my %wanted = map { $_ => 1 } @{ $vollist // [] };
    my @images;
    for my $volume (@volumes) {
        my $labels = $volume->{labels};
        next if !defined $labels->{'pve.name'} || !eval { $class->parse_volname(full_name($volume)); 1 };
        my $volid = "$storeid:" . full_name($volume);
        next if $vollist && !$wanted{$volid};
        my $image = { volid => $volid, format => 'raw', size => $volume->{size}, used => $volume->{mapped}, vmid => $labels->{'pve.vm'} };
        $image->{parent} = $labels->{'pve.base'} if $labels->{'pve.base'};
        push @images, $image;
    }
    return \@images;
}

# --- making and removing volumes

# Sizes that the array has no volume for are rounded up, and reported as they are then.
sub whole_bytes {
    my ($bytes) = @_;
    my $whole = int(($bytes + $BLOCK_BYTES - 1) / $BLOCK_BYTES) * $BLOCK_BYTES;
    return $whole < $MIN_VOLUME_BYTES ? $MIN_VOLUME_BYTES : $whole;
}

sub create {
    my ($class, $storeid, $scfg, $vmid, $name, %content) = @_;
    my $prefix = prefix($storeid, $scfg);
    my $object = Ashlar::Array::object_name($prefix, $name);
    my $array = array($storeid, $scfg);
    # Creation has ensure semantics on the array; here a name that is taken is an error.
    die "volume '$storeid:$name' exists already on the array as $object\n" if $array->find("volumes/$object");
    my $base = delete $content{base};
    my %labels = (name_labels($prefix, $name, $vmid), $base ? ('pve.base' => $base) : ());
    my $group = $scfg->{'ashlar-group'};
    return $array->post('volumes', { name => $object, labels => \%labels, %content, defined $group ? (group => $group) : () });
}

sub alloc_image {
    my ($class, $storeid, $scfg, $vmid, $fmt, $name, $size) = @_;
    die "unsupported format '$fmt': volumes of an array are raw\n" if ($fmt // 'raw') ne 'raw';
    $name //= $class->find_free_diskname($storeid, $scfg, $vmid, 'raw');
    my (undef, undef, $owner, $base) = $class->parse_volname($name);
    die "illegal name '$name' - should be 'vm-$vmid-*'\n" if $name !~ /\Avm-/ || $owner ne $vmid || defined $base;
    $class->create($storeid, $scfg, $vmid, $name, size => whole_bytes($size * 1024));
    return $name;
}

# The host of this node on the array, which may be one that an administrator made; undef if there is none.
sub node_host {
    my ($array) = @_;
    my ($host) = $array->list('hosts?initiator=' . Ashlar::Array::escape($INITIATOR->iqn));
    return $host;
}

sub ensure_node_host {
    my ($array) = @_;
    my $host = node_host($array);
    return $host if $host;
    my $node = PVE::INotify::nodename();
    my $made = eval { $array->post('hosts', {
        name => Ashlar::Array::object_name('pve', $node), initiators => [$INITIATOR->iqn],
        labels => { 'pve.node' => $node },
    }) };
    return $made if $made;
    my $error = $@;
    die $error if !Ashlar::Error::is($error, 'differs');
    die "the array knows node $node by another initiator name than " . $INITIATOR->iqn . ": correct it there with "
        . "\"ashlar host change\"\n";
}

# Dies if nodes other than this one, or other hosts, have the disk connected: only they know whether they use it.
sub refuse_if_connected_elsewhere {
    my ($array, $disk, $what) = @_;
    my $mine = node_host($array);
    my @others;
    for my $connection (@{ $disk->{connections} }) {
        next if $mine && ($connection->{host_id} // '') eq $mine->{id};
        push @others, $connection->{host} ? "host $connection->{host}" : "host group $connection->{host_group}";
    }
    return if !@others;
    die "$what is connected to " . join(', ', @others) . ": stop what uses it there; if that node is gone for good, "
        . "\"ashlar volume disconnect\" releases it\n";
}

# Takes a disk away from this node, devices first. Dies if it is used here or connected elsewhere.
sub release {
    my ($array, $disk, $what) = @_;
    refuse_if_connected_elsewhere($array, $disk, $what);
    $INITIATOR->detach($disk->{naa}, $what);
    disconnect($array, $disk);
    return;
}

sub disconnect {
    my ($array, $disk) = @_;
    my $host = node_host($array) // return;
    $array->delete("connections/$disk->{id}/$host->{id}");
    return;
}

sub free_image {
    my ($class, $storeid, $scfg, $volname, $isBase, $format) = @_;
    # Gone already: an earlier call may have been cut off after it had done its work.
    my $volume = $class->find_volume($storeid, $scfg, $volname) // return undef;
    my $array = array($storeid, $scfg);
    my %snapshots = snapshots_of($storeid, $scfg, $volume);
    release($array, $_, "snapshot '$_->{labels}{'pve.snapshot'}' of '$storeid:$volname'") for values %snapshots;
    release($array, $volume, "volume '$storeid:$volname'");
    $array->delete("volumes/$volume->{id}");
    for my $snapshot (values %snapshots) {
        eval { $array->delete("snapshots/$snapshot->{id}"); 1 } or warn "the snapshot $snapshot->{name} stays on the array: $@";
    }
    return undef;
}

sub create_base {
    my ($class, $storeid, $scfg, $volname) = @_;
    my (undef, $name, $vmid, $base, undef, $is_base) = $class->parse_volname($volname);
    die "'$volname' is a base volume already\n" if $is_base;
    my $volume = $class->need_volume($storeid, $scfg, $volname);
    my $array = array($storeid, $scfg);
    # A template is not used by anything, least of all written to.
    release($array, $volume, "volume '$storeid:$volname'");
    (my $new = $name) =~ s/\Avm-/base-/;
    $class->rename_on_array($storeid, $scfg, $volume, $new, $vmid);
    $array->patch("volumes/$volume->{id}", { read_only => JSON::PP::true() });
    return defined $base ? "$base/$new" : $new;
}

sub rename_on_array {
    my ($class, $storeid, $scfg, $volume, $new, $vmid) = @_;
    my $prefix = prefix($storeid, $scfg);
    my $object = Ashlar::Array::object_name($prefix, $new);
    my $array = array($storeid, $scfg);
    my $there = $array->find("volumes/$object");
    die "volume '$storeid:$new' exists already on the array\n" if $there && $there->{id} ne $volume->{id};
    $array->patch("volumes/$volume->{id}", { name => $object, labels => { name_labels($prefix, $new, $vmid) } });
    return;
}

sub rename_volume {
    my ($class, $scfg, $storeid, $source_volname, $target_vmid, $target_volname) = @_;
    my (undef, $name, $vmid, $base, undef, $is_base) = $class->parse_volname($source_volname);
    $target_vmid //= $vmid;
    $target_volname //= $class->find_free_diskname($storeid, $scfg, $target_vmid, 'raw');
    my ($new) = ($class->parse_volname($target_volname))[1];
    my $volume = $class->need_volume($storeid, $scfg, $source_volname);
    $class->rename_on_array($storeid, $scfg, $volume, $new, $target_vmid);
    return "$storeid:" . (defined $base ? "$base/$new" : $new);
}

sub clone_image {
    my ($class, $scfg, $storeid, $volname, $vmid, $snap) = @_;
    my (undef, $name, undef, undef, undef, $is_base) = $class->parse_volname($volname);
    die "a linked clone is made of a base volume or of a snapshot\n" if !$is_base && !defined $snap;
    my $source = $class->need_disk($storeid, $scfg, $volname, $snap);
    my $new = $class->find_free_diskname($storeid, $scfg, $vmid, 'raw');
    # The array's clone stands on its own. Proxmox VE counts the clones of a base volume by their names.
    my $base = $is_base ? $name : undef;
    $class->create($storeid, $scfg, $vmid, $new, source => $source->{id}, base => $base);
    return defined $base ? "$base/$new" : $new;
}

sub volume_resize {
    my ($class, $scfg, $storeid, $volname, $size, $running, $snapname) = @_;
    die "a snapshot can't be resized\n" if defined $snapname;
    my $volume = $class->need_volume($storeid, $scfg, $volname);
    my $bytes = whole_bytes($size);
    die "volume '$storeid:$volname' has $volume->{size} bytes; it can't be made smaller\n" if $bytes < $volume->{size};
    array($storeid, $scfg)->patch("volumes/$volume->{id}", { size => int($bytes) }) if $bytes > $volume->{size};
    # `running` is not set for containers, so what counts is whether the device is here.
    $INITIATOR->fit($volume->{naa}, $bytes, multipath($scfg));
    return 1;
}

# --- attaching

# Other nodes keep their connections: during a live migration both have the disk.
sub activate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache, $hints) = @_;
    my $disk = $class->need_disk($storeid, $scfg, $volname, $snapname);
    my $array = array($storeid, $scfg);
    my $attachment = connect_disk($array, $disk, ensure_node_host($array), defined $snapname);
    my @portals = map { Ashlar::Initiator::portal_name($_->{address}, $_->{port}) } @{ $attachment->{portals} };
    $INITIATOR->attach({
        naa => $disk->{naa}, lun => $attachment->{lun}, target => $attachment->{target_iqn}, portals => \@portals,
        size => $disk->{size}, multipath => multipath($scfg),
    });
    return 1;
}

sub connect_disk {
    my ($array, $disk, $host, $is_snapshot) = @_;
    my %wanted = (volume => $disk->{id}, host => $host->{id}, min_lun => 1);
    $wanted{read_only} = JSON::PP::true() if $is_snapshot && !$disk->{writable};
    my $attachment = eval { $array->post('connections', \%wanted) };
    return $attachment if $attachment;
    my $error = $@;
    # What an administrator connected stays as it is: with LUN 0, or through a host group.
    my $field = ref $error && $error->{field} // '';
    return $array->get("connections/$disk->{id}/$host->{id}") if $field eq 'min_lun';
    return $array->get("connections/$disk->{id}/host-groups/$host->{host_group_id}")
        if $field eq 'host_group' && $host->{host_group_id};
    die $error;
}

sub deactivate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache) = @_;
    my $volume = $class->find_volume($storeid, $scfg, $volname) // return 1;
    my $disk = $volume;
    if (defined $snapname) {
        my %snapshots = snapshots_of($storeid, $scfg, $volume);
        $disk = $snapshots{$snapname} // return 1;
    }
    $INITIATOR->detach($disk->{naa}, "volume '$storeid:$volname'");
    disconnect(array($storeid, $scfg), $disk);
    return 1;
}

sub map_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $hints) = @_;
    $class->activate_volume($storeid, $scfg, $volname, $snapname, {}, $hints);
    return scalar $class->path($scfg, $volname, $storeid, $snapname);
}

sub unmap_volume { return 1; }

# --- snapshots

# Sets that this process has taken: "storage vm snapshot" => set.
#
# Proxmox VE asks for the snapshot of a virtual machine disk by disk, in one process. The first of these calls takes
# all of its disks at one moment; the following ones find theirs there.
my %sets;

sub volume_snapshot {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;
    my (undef, undef, $vmid) = $class->parse_volname($volname);
    my $volume = $class->need_volume($storeid, $scfg, $volname);
    my $array = array($storeid, $scfg);
    my $moment = "$storeid $vmid $snap";
    my %there = snapshots_of($storeid, $scfg, $volume);
    if (my $snapshot = $there{$snap}) {
        die "volume '$storeid:$volname' has a snapshot '$snap' already: delete it first\n"
            if !$snapshot->{labels}{'pve.pending'} || $snapshot->{set} ne ($sets{$moment} // '');
        $array->patch("snapshots/$snapshot->{id}", { labels => { 'pve.pending' => undef } });
        return undef;
    }
    my %labels = ('pve.storage' => prefix($storeid, $scfg), 'pve.snapshot' => $snap);
    my %have = map { $_->{source_id} => 1 } $array->list('snapshots?' . Ashlar::Array::label_query(%labels));
    my @others = grep { $_->{id} ne $volume->{id} && !$have{ $_->{id} } } $class->disks_of_guest($storeid, $scfg, $vmid);
    my @sources = ({ volume => $volume->{id} }, map { { volume => $_->{id}, labels => { 'pve.pending' => '1' } } } @others);
    my $request = { sources => \@sources, suffix => $snap, labels => { %labels, 'pve.vm' => "$vmid" } };
    my $taken = eval { $array->post('snapshots', $request) };
    if (!$taken) {
        my $error = $@;
        die $error if !Ashlar::Error::is($error, 'differs') && !Ashlar::Error::is($error, 'conflict');
        # A volume that has been renamed since, or deleted, has left a snapshot of this name.
        $request->{suffix} = "$snap-" . substr($volume->{id}, -8) . '-' . int(time());
        $taken = $array->post('snapshots', $request);
    }
    $sets{$moment} = $taken->{items}[0]{set};
    return undef;
}

# The disks that Proxmox VE takes snapshots of: not saved memory, not the generated cloud-init drive.
sub disks_of_guest {
    my ($class, $storeid, $scfg, $vmid) = @_;
    my %labels = ('pve.storage' => prefix($storeid, $scfg), 'pve.vm' => "$vmid");
    my @volumes = array($storeid, $scfg)->list('volumes?' . Ashlar::Array::label_query(%labels));
    return grep { ($_->{labels}{'pve.name'} // '') =~ /\Avm-\d+-disk-/ } @volumes;
}

sub volume_snapshot_info {
    my ($class, $scfg, $storeid, $volname) = @_;
    my $volume = $class->find_volume($storeid, $scfg, $volname) // return {};
    my %snapshots = snapshots_of($storeid, $scfg, $volume);
    my %info;
    for my $name (grep { !$snapshots{$_}{labels}{'pve.pending'} } keys %snapshots) {
        my $snapshot = $snapshots{$name};
        $info{$name} = { id => $snapshot->{id}, timestamp => seconds($snapshot->{created}), 'virtual-size' => $snapshot->{size} };
    }
    return \%info;
}

# Seconds since 1970 of a time in UTC (RFC 3339).
sub seconds {
    my ($text) = @_;
    my ($year, $month, @rest) = $text =~ /\A(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)/ or return 0;
    require Time::Local;
    return Time::Local::timegm(reverse(@rest), $month - 1, $year);
}

# Any snapshot can be returned to: the array keeps those that are newer.
sub volume_rollback_is_possible {
    my ($class, $scfg, $storeid, $volname, $snap, $blockers) = @_;
    my $volume = $class->need_volume($storeid, $scfg, $volname);
    need_snapshot($storeid, $scfg, $volume, $snap);
    return 1;
}

sub volume_snapshot_rollback {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;
    my $volume = $class->need_volume($storeid, $scfg, $volname);
    my $snapshot = need_snapshot($storeid, $scfg, $volume, $snap);
    my $array = array($storeid, $scfg);
    # Also drops what the node has cached of the old contents.
    release($array, $volume, "volume '$storeid:$volname'");
    $array->post("volumes/$volume->{id}/restore", { source => $snapshot->{id} });
    return undef;
}

sub volume_snapshot_delete {
    my ($class, $scfg, $storeid, $volname, $snap, $running) = @_;
    my $volume = $class->find_volume($storeid, $scfg, $volname) // return 1;
    my %snapshots = snapshots_of($storeid, $scfg, $volume);
    my $snapshot = $snapshots{$snap} // return 1;
    my $array = array($storeid, $scfg);
    # Backups of containers activate a snapshot and leave it so.
    release($array, $snapshot, "snapshot '$snap' of '$storeid:$volname'");
    $array->delete("snapshots/$snapshot->{id}");
    # Taken with it and never asked for: disks that the guest's configuration leaves out.
    my $query = Ashlar::Array::label_query('pve.storage' => prefix($storeid, $scfg), 'pve.pending' => '1', 'pve.snapshot' => $snap);
    for my $other ($array->list("snapshots?filter=set=$snapshot->{set}&$query")) {
        eval { $array->delete("snapshots/$other->{id}"); 1 } or warn "the snapshot $other->{name} stays on the array: $@";
    }
    return 1;
}

sub rename_snapshot {
    my ($class, $scfg, $storeid, $volname, $source_snap, $target_snap) = @_;
    my $volume = $class->need_volume($storeid, $scfg, $volname);
    my $snapshot = need_snapshot($storeid, $scfg, $volume, $source_snap);
    my %snapshots = snapshots_of($storeid, $scfg, $volume);
    die "volume '$storeid:$volname' has a snapshot '$target_snap' already\n" if $snapshots{$target_snap};
    array($storeid, $scfg)->patch("snapshots/$snapshot->{id}", { labels => { 'pve.snapshot' => $target_snap } });
    return undef;
}

sub volume_snapshot_needs_fsfreeze { return 1; }

sub volume_qemu_snapshot_method { return 'storage'; }

sub storage_can_replicate { return 0; }

my $FEATURES = {
    snapshot => { current => 1 },
    clone => { base => 1, snap => 1 },
    template => { current => 1 },
    copy => { base => 1, current => 1, snap => 1 },
    sparseinit => { base => 1, current => 1 },
    rename => { current => 1 },
};

sub volume_has_feature {
    my ($class, $scfg, $feature, $storeid, $volname, $snapname, $running, $opts) = @_;
    my $is_base = ($class->parse_volname($volname))[5];
    my $state = defined $snapname ? 'snap' : $is_base ? 'base' : 'current';
    return $FEATURES->{$feature}{$state} ? 1 : undef;
}

# --- export and import: the size in 8 bytes, little endian, then the contents

sub volume_export_formats {
    my ($class, $scfg, $storeid, $volname, $snapshot, $base_snapshot, $with_snapshots) = @_;
    return () if $with_snapshots || defined $base_snapshot;
    return ('raw+size');
}

sub volume_export {
    my ($class, $scfg, $storeid, $fh, $volname, $format, $snapshot, $base_snapshot, $with_snapshots) = @_;
    die "volume export format $format not available for $class\n" if $format ne 'raw+size';
    die "snapshots can't be exported together with a volume\n" if $with_snapshots;
    die "there are no incremental streams of raw volumes\n" if defined $base_snapshot;
    my $disk = $class->need_disk($storeid, $scfg, $volname, $snapshot);
    $class->activate_volume($storeid, $scfg, $volname, $snapshot);
    my $path = $INITIATOR->{root} . $class->path($scfg, $volname, $storeid, $snapshot);
    PVE::Storage::Plugin::write_common_header($fh, $disk->{size});
    run_command(['dd', "if=$path", 'bs=1M', 'status=none'], output => '>&' . fileno($fh));
    return undef;
}

sub volume_import_formats {
    my ($class, $scfg, $storeid, $volname, $snapshot, $base_snapshot, $with_snapshots) = @_;
    return () if $with_snapshots || defined $base_snapshot;
    return ('raw+size');
}

sub volume_import {
    my ($class, $scfg, $storeid, $fh, $volname, $format, $snapshot, $base_snapshot, $with_snapshots, $allow_rename) = @_;
    die "volume import format $format not available for $class\n" if $format ne 'raw+size';
    die "snapshots can't be imported together with a volume\n" if $with_snapshots;
    die "there are no incremental streams of raw volumes\n" if defined $base_snapshot;
    my (undef, $name, $vmid) = $class->parse_volname($volname);
    my ($size) = PVE::Storage::Plugin::read_common_header($fh);
    my $new = $class->cluster_lock_storage($storeid, $scfg->{shared}, undef, sub {
        if ($class->find_volume($storeid, $scfg, $name)) {
            die "volume '$storeid:$name' exists already\n" if !$allow_rename;
            warn "volume '$storeid:$name' exists already - importing with a different name\n";
            $name = undef;
        }
        return $class->alloc_image($storeid, $scfg, $vmid, 'raw', $name, int(($size + 1023) / 1024));
    });
    my $done = eval {
        $class->activate_volume($storeid, $scfg, $new);
        my $path = $INITIATOR->{root} . $class->path($scfg, $new, $storeid);
        # A new volume reads as zeros, so zeros need not be written.
        run_command(['dd', "of=$path", 'bs=1M', 'iflag=fullblock', 'conv=sparse,nocreat,notrunc,fsync', 'status=none'],
            input => '<&' . fileno($fh));
        $class->deactivate_volume($storeid, $scfg, $new);
        1;
    };
    return "$storeid:$new" if $done;
    my $error = $@;
    # What has been written is not the volume. It goes to the recycle bin.
    eval { $class->free_image($storeid, $scfg, $new); 1 } or warn "the volume '$storeid:$new' stays on the array: $@";
    die $error;
}

1;

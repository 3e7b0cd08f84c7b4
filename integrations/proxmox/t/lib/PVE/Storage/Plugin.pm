package PVE::Storage::Plugin;

# Our own small stub of the base class of storage plug-ins: what the plug-in inherits and calls, written from the
# documented contract (ApiChangeLog and the plug-in documentation of Proxmox VE), so that tests need no Proxmox VE.

use strict;
use warnings;

our @SHARED_STORAGE = ();

my %registered;

sub register {
    my ($class) = @_;
    $registered{ $class->type } = $class;
    return;
}

sub lookup { return $registered{ $_[1] }; }

# Properties are one name space for all plug-ins: those that exist already, as far as ours touches them.
our %KNOWN_PROPERTIES = map { $_ => 1 }
    qw(type storage nodes content disable maxfiles shared format path server port username password fingerprint
    bwlimit preallocation vgname thinpool base pool export portal target domain smbversion namespace datastore);

# What the configuration layer checks when it initialises.
sub init {
    for my $type (sort keys %registered) {
        my $class = $registered{$type};
        my $own = $class->properties;
        for my $name (keys %$own) {
            die "duplicate property '$name'" if $KNOWN_PROPERTIES{$name};
        }
        for my $name (keys %{ $class->options }) {
            die "undefined property '$name'" if !$own->{$name} && !$KNOWN_PROPERTIES{$name};
        }
    }
    return 1;
}

sub cluster_lock_storage {
    my ($class, $storeid, $shared, $timeout, $function, @arguments) = @_;
    return $function->(@arguments);
}

sub find_free_diskname {
    my ($class, $storeid, $scfg, $vmid, $format, $suffix) = @_;
    my %taken = map { $_->{volid} =~ /(?:vm|base)-\d+-disk-(\d+)\z/ ? ($1 => 1) : () } @{ $class->list_images($storeid, $scfg, $vmid) };
    my $number = 0;
    $number++ while $taken{$number};
    return "vm-$vmid-disk-$number";
}

sub write_common_header {
    my ($handle, $size) = @_;
    syswrite($handle, pack('Q<', $size), 8) == 8 or die "write failed\n";
    return;
}

sub read_common_header {
    my ($handle) = @_;
    sysread($handle, my $bytes, 8) == 8 or die "unexpected end of the stream\n";
    return unpack('Q<', $bytes);
}

1;

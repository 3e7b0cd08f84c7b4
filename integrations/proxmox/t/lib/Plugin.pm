package Plugin;

# The plug-in as Proxmox VE holds it: a storage on a live array, and its methods with the storage's arguments filled in.

use strict;
use warnings;

use File::Temp qw(tempdir);

use PVE::Storage::Custom::AshlarPlugin;

my $CLASS = 'PVE::Storage::Custom::AshlarPlugin';

sub new {
    my ($class, $array, %config) = @_;
    $PVE::Storage::Custom::AshlarPlugin::PRIVATE = tempdir('ashlar-priv-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    my $id = delete $config{id} // 'flash.1';
    my $token = delete $config{token} // $array->{token};
    my $self = bless { id => $id, scfg => { type => 'ashlar', shared => 1, 'ashlar-url' => $array->{url}, %config } }, $class;
    $CLASS->on_add_hook($id, $self->{scfg}, password => $token);
    return $self;
}

# Methods by where the storage's id and configuration stand among their arguments.
my %ORDER = (
    (map { $_ => 'id' } qw(alloc_image free_image create_base list_images status activate_storage check_connection
        activate_volume deactivate_volume map_volume volume_qemu_snapshot_method find_volume)),
    (map { $_ => 'config' } qw(clone_image rename_volume volume_size_info volume_resize volume_snapshot volume_snapshot_info
        volume_rollback_is_possible volume_snapshot_rollback volume_snapshot_delete rename_snapshot get_identity
        qemu_blockdev_options volume_export_formats volume_import_formats volume_export volume_import)),
);

our $AUTOLOAD;

sub AUTOLOAD {
    my ($self, @arguments) = @_;
    (my $method = $AUTOLOAD) =~ s/.*:://;
    my $order = $ORDER{$method} // die "no method $method";
    my @storage = $order eq 'id' ? ($self->{id}, $self->{scfg}) : ($self->{scfg}, $self->{id});
    return $CLASS->$method(@storage, @arguments);
}

sub DESTROY { return; }

sub path {
    my ($self, $volname, $snap) = @_;
    return scalar $CLASS->path($self->{scfg}, $volname, $self->{id}, $snap);
}

sub has {
    my ($self, $feature, $volname, $snap) = @_;
    return $CLASS->volume_has_feature($self->{scfg}, $feature, $self->{id}, $volname, $snap) ? 1 : 0;
}

# The names of a guest's volumes as `qm rescan` sees them.
sub volids {
    my ($self, $vmid) = @_;
    return [sort map { $_->{volid} } @{ $self->list_images($vmid) }];
}

# The text of the error that a method dies with; empty if it does not.
sub error_of {
    my ($code) = @_;
    return eval { $code->(); 1 } ? '' : "$@";
}

1;

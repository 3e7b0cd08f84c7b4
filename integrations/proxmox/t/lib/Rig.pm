package Rig;

# A live array on loopback, and a node whose kernel is a model.
#
# The array is the real daemon. The model answers for sysfs, iscsiadm, multipath and dmsetup, and finds LUNs by asking the
# array what the node's host sees, as a scan would.

use strict;
use warnings;

use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);
use HTTP::Tiny;
use JSON::PP ();

use Ashlar::Initiator;
use PVE::INotify;
use PVE::Storage;

my $json = JSON::PP->new->utf8;

# --- the array

sub start_array {
    my ($class, @more) = @_;
    my $program = $ENV{ASHLARD} or die "ASHLARD must name the daemon; \"cargo xtask integrations proxmox\" sets it\n";
    my $folder = tempdir('ashlar-proxmox-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    my $log = $ENV{ASHLARD_LOG} ? '>&STDERR' : '>/dev/null';
    my $pid = open(my $out, '-|') // die "fork: $!";
    if (!$pid) {
        open(STDERR, $log);
        exec $program, '--data', $folder, '--iscsi', '127.0.0.1:0,127.0.0.1:0', '--api', '127.0.0.1:0',
            '--drives', '6', '--drive-size', '1GiB', @more or die "exec: $!";
    }
    my $line = <$out> // die "ashlard ended before it was ready; ASHLARD_LOG=1 shows why\n";
    my $ready = $json->decode($line);
    open(my $file, '<', "$folder/api.json") or die "api.json: $!";
    my $access = $json->decode(join '', <$file>);
    return bless { pid => $pid, out => $out, folder => $folder, ready => $ready, url => $access->{url}, token => $access->{token} }, $class;
}

sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return;
    local ($?, $!);
    kill('TERM', $pid);
    close($self->{out});
    waitpid($pid, 0);
    return;
}

sub DESTROY { $_[0]->stop; return; }

# Asks the API; returns (status, object).
sub ask {
    my ($self, $method, $path, $body, $token) = @_;
    my %options = (headers => { Authorization => 'Bearer ' . ($token // $self->{token}), 'Content-Type' => 'application/json' });
    $options{content} = $json->encode($body) if $body;
    my $answer = HTTP::Tiny->new->request($method, "$self->{url}/api/v1/$path", \%options);
    my $object = eval { $json->decode($answer->{content}) };
    return ($answer->{status}, $object);
}

# Asks the API, which must agree.
sub must {
    my ($self, @request) = @_;
    my ($status, $object) = $self->ask(@request);
    die "$request[0] $request[1]: $status $object->{detail}\n" if $status >= 300;
    return $object;
}

# Commands of qemu-io on a LUN as an initiator sees it; true if all succeed.
sub io {
    my ($self, $iqn, $lun, @commands) = @_;
    my $image = "driver=iscsi,transport=tcp,portal=$self->{ready}{portals}[0],target=$self->{ready}{target_iqn},lun=$lun,initiator-name=$iqn";
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        open(STDOUT, '>', '/dev/null');
        open(STDERR, '>&', \*STDOUT) if !$ENV{ASHLARD_LOG};
        my @mode = (grep { !/\Aread/ } @commands) ? () : ('-r');
        exec 'qemu-io', @mode, '--image-opts', $image, map { ('-c', $_) } @commands or POSIX::_exit(127);
    }
    waitpid($pid, 0);
    return $? == 0;
}

# --- the node

package Rig::Node;

use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp qw(tempdir);

my $host_number = 1;

sub new {
    my ($class, $array, $name) = @_;
    my $root = tempdir('ashlar-node-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    my $self = bless { array => $array, name => $name, root => $root, disk => 'a', dm => 0, log => [], iqn => "iqn.1993-08.org.debian:01:$name" }, $class;
    $self->put('/etc/iscsi/initiatorname.iscsi', "## made at installation\nInitiatorName=$self->{iqn}\n");
    $self->put('/proc/self/mountinfo', "22 1 8:1 / / rw - ext4 /dev/root rw\n");
    $self->put('/proc/1/comm', 'init');
    make_path("$root/proc/1/fd", "$root/sys/block", "$root/sys/class/iscsi_session", "$root/dev/disk/by-id");
    $self->{initiator} = Ashlar::Initiator->new(root => $root, run => sub { $self->run(@_) }, appear_seconds => 3);
    return $self;
}

# Makes this the node that the plug-in runs on.
sub enter {
    my ($self) = @_;
    $PVE::INotify::NODE = $self->{name};
    $PVE::Storage::Custom::AshlarPlugin::INITIATOR = $self->{initiator};
    return $self;
}

sub put {
    my ($self, $path, $text) = @_;
    make_path(dirname("$self->{root}$path"));
    open(my $file, '>', "$self->{root}$path") or die "$path: $!";
    print {$file} $text;
    close($file);
    return;
}

sub get {
    my ($self, $path) = @_;
    open(my $file, '<', "$self->{root}$path") or return undef;
    local $/;
    return scalar <$file>;
}

sub drop {
    my ($self, $path) = @_;
    File::Path::remove_tree("$self->{root}$path");
    unlink "$self->{root}$path";
    return;
}

# Commands so far; empties the log.
sub commands {
    my ($self) = @_;
    my @log = @{ $self->{log} };
    $self->{log} = [];
    return @log;
}

sub answer {
    my ($code, $out, $err) = @_;
    return { code => $code, out => $out // '', err => $err // '' };
}

# What a command does on a node.
sub run {
    my ($self, $command) = @_;
    my @words = @$command;
    push @{ $self->{log} }, $words[0] eq '/bin/sh' ? "write $words[4] > " . substr($words[5], length $self->{root}) : "@words";
    for my $rule (@{ $self->{rules} // [] }) {
        my ($pattern, $answer) = @$rule;
        return ref $answer eq 'CODE' ? $answer->() : $answer if $self->{log}[-1] =~ $pattern;
    }
    return $self->write(substr($words[5], length $self->{root}), $words[4]) if $words[0] eq '/bin/sh';
    return $self->iscsiadm(@words) if $words[0] eq 'iscsiadm';
    return $self->multipath(@words) if $words[0] =~ /\Amultipathd?\z/;
    return $self->dmsetup(@words) if $words[0] eq 'dmsetup';
    return answer(0) if $words[0] eq 'blockdev' || $words[0] eq 'udevadm';
    return answer(127, '', "no $words[0] here");
}

# Answers a command that matches with this instead.
sub rule { my ($self, $pattern, $answer) = @_; unshift @{ $self->{rules} }, [$pattern, $answer]; return; }
sub no_rules { $_[0]{rules} = []; return; }

sub iscsiadm {
    my ($self, @words) = @_;
    return answer(0) if !grep { $_ eq '--login' } @words;
    my %option = @words[3 .. 6];
    my ($address, $port) = $option{'-p'} =~ /\A\[?(.*?)\]?:(\d+)\z/;
    my $number = $host_number++;
    my $device = "/sys/devices/platform/host$number/session$number";
    my $class = "/sys/class/iscsi_session/session$number";
    $self->put("$class/targetname", "$option{'-T'}\n");
    $self->put("$class/state", "LOGGED_IN\n");
    $self->put("$class/target_id", "0\n");
    symlink("../../../devices/platform/host$number/session$number", "$self->{root}$class/device");
    $self->put("/sys/class/iscsi_connection/connection$number:0/persistent_address", "$address\n");
    $self->put("/sys/class/iscsi_connection/connection$number:0/persistent_port", "$port\n");
    $self->put("/sys/class/scsi_host/host$number/scan", '');
    return answer(0);
}

# The connections of this node's host on the array.
sub luns {
    my ($self) = @_;
    my $hosts = $self->{array}->must('GET', "hosts?initiator=$self->{iqn}");
    return map { $_->{lun} => $_ } map { @{ $_->{connections} } } @{ $hosts->{items} };
}

# The disk of the array that a connection is of.
sub disk_of {
    my ($self, $connection) = @_;
    my ($status, $volume) = $self->{array}->ask('GET', "volumes/$connection->{volume_id}");
    return $volume if $status == 200;
    return $self->{array}->must('GET', "snapshots/$connection->{volume_id}");
}

sub write {
    my ($self, $path, $value) = @_;
    if ($path =~ m!/scsi_host/host(\d+)/scan\z!) {
        my ($channel, $target, $lun) = split ' ', $value;
        die "a rescan of everything brings back LUNs that are being removed" if $value =~ /-/;
        my $connection = { $self->luns }->{$lun};
        $self->make_disk($1, $target, $lun, $connection) if $connection;
        return answer(0);
    }
    if ($path =~ m!\A/sys/block/(sd[a-z]+)/device/(delete|rescan)\z!) {
        my ($disk, $what) = ($1, $2);
        return answer(1, '', 'no such device') if !-e "$self->{root}/sys/block/$disk";
        my $address = $self->{at}{$disk};
        if ($what eq 'delete') {
            $self->drop("/sys/block/$disk");
            $self->drop("/sys/class/scsi_device/$address");
            $self->refresh_links;
            return answer(0);
        }
        my (undef, undef, undef, $lun) = split /:/, $address;
        my $connection = { $self->luns }->{$lun};
        $self->fill($disk, $self->disk_of($connection)) if $connection;
        return answer(0);
    }
    return answer(1, '', "nothing to write at $path");
}

sub make_disk {
    my ($self, $host, $target, $lun, $connection) = @_;
    my $address = "$host:0:$target:$lun";
    return if -e "$self->{root}/sys/class/scsi_device/$address";
    my $disk = 'sd' . $self->{disk}++;
    $self->{at}{$disk} = $address;
    make_path("$self->{root}/sys/class/scsi_device/$address/device/block/$disk");
    $self->put("/sys/block/$disk/dev", '8:' . (16 * (1 + keys %{ $self->{at} })) . "\n");
    make_path("$self->{root}/sys/block/$disk/holders");
    $self->fill($disk, $self->disk_of($connection));
    $self->refresh_links;
    return;
}

sub fill {
    my ($self, $disk, $volume) = @_;
    (my $naa = $volume->{naa}) =~ s/\Anaa\.//;
    $self->put("/sys/block/$disk/device/wwid", "naa.$naa\0\0\0\0\n");
    $self->put("/sys/block/$disk/size", $volume->{size} / 512 . "\n");
    return;
}

# What udev makes: links by WWID, while there is a disk or a map of it. The device is a file of its own.
sub refresh_links {
    my ($self) = @_;
    my %want;
    for my $disk ($self->{initiator}->entries('/sys/block')) {
        my $uuid = $self->get("/sys/block/$disk/dm/uuid");
        my $wwid = $self->get("/sys/block/$disk/device/wwid");
        $want{"dm-uuid-$1"} = 1 if defined $uuid && $uuid =~ /(\S+)/;
        $want{"wwn-0x$1"} = 1 if defined $wwid && $wwid =~ /naa\.([0-9a-f]+)/;
    }
    for my $there ($self->{initiator}->entries('/dev/disk/by-id')) {
        unlink "$self->{root}/dev/disk/by-id/$there" if !$want{$there};
    }
    for my $name (keys %want) {
        my ($naa) = $name =~ /([0-9a-f]{32})\z/;
        $self->put("/dev/luns/$naa", '') if !-e "$self->{root}/dev/luns/$naa";
        symlink("../../luns/$naa", "$self->{root}/dev/disk/by-id/$name");
    }
    return;
}

sub multipath {
    my ($self, @words) = @_;
    my ($program, @rest) = @words;
    if ($program eq 'multipathd' && "@rest[0, 1]" eq 'add path') {
        my $disk = $rest[2];
        my $wwid = $self->get("/sys/block/$disk/device/wwid") // return answer(1);
        $wwid =~ /naa\.([0-9a-f]+)/ or return answer(1);
        my $map = $self->{initiator}->map_of($1);
        if (!$map) {
            $map = 'dm-' . $self->{dm}++;
            $self->put("/sys/block/$map/dm/uuid", "mpath-3$1\n");
            $self->put("/sys/block/$map/dm/name", "3$1\n");
            $self->put("/sys/block/$map/size", $self->get("/sys/block/$disk/size"));
            $self->put("/sys/block/$map/dev", "253:$self->{dm}\n");
            make_path("$self->{root}/sys/block/$map/holders", "$self->{root}/sys/block/$map/slaves");
        }
        make_path("$self->{root}/sys/block/$map/slaves/$disk");
        make_path("$self->{root}/sys/block/$disk/holders/$map");
        $self->refresh_links;
        return answer(0, "ok\n");
    }
    if ($program eq 'multipathd' && "@rest[0, 1]" eq 'resize map') {
        my $map = $self->by_name($rest[2]);
        my ($path) = $self->{initiator}->entries("/sys/block/$map/slaves");
        $self->put("/sys/block/$map/size", $self->get("/sys/block/$path/size"));
        return answer(0, "ok\n");
    }
    if ($program eq 'multipath' && $rest[0] eq '-f') {
        my $map = $self->by_name($rest[1]) or return answer(1);
        $self->drop("/sys/block/$_/holders/$map") for $self->{initiator}->entries("/sys/block/$map/slaves");
        $self->drop("/sys/block/$map");
        $self->refresh_links;
        return answer(0);
    }
    return answer(0);
}

sub by_name {
    my ($self, $name) = @_;
    my ($map) = grep { ($self->get("/sys/block/$_/dm/name") // '') eq "$name\n" } $self->{initiator}->entries('/sys/block');
    return $map;
}

sub dmsetup {
    my ($self, @words) = @_;
    return answer(0, ($self->{open}{ $words[-1] } // 0) . "\n");
}

# Disks and maps of the node.
sub devices {
    my ($self) = @_;
    return $self->{initiator}->entries('/sys/block');
}

1;

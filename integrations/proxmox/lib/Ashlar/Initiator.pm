package Ashlar::Initiator;

# The node's side of an attachment: iSCSI sessions, SCSI devices of one LUN, and the multipath map over them.
#
# Everything is done for one LUN at a time, by its number and its WWID: a rescan of everything brings back devices of LUNs
# that are being removed, and `sd` names are reused, so a device is touched only after its WWID has been read.
# A question that can't be answered ("is it in use?") is an error, never "no".

use strict;
use warnings;

use Time::HiRes qw(sleep time);

use Ashlar::Command;

my $IQN_FILE = '/etc/iscsi/initiatorname.iscsi';
my $LOGIN_SECONDS = 20;
my $SCAN_SECONDS = 20;
my $COMMAND_SECONDS = 30;
my $APPEAR_SECONDS = 30;
my $SETTLE_SECONDS = 10;
my $POLL_SECONDS = 0.1;
# Exit statuses of iscsiadm(8).
my $ISCSIADM_SESSION_EXISTS = 15;
my $SECTOR_BYTES = 512;

# root: prefix of /sys, /proc, /dev and /etc; run: replaces Ashlar::Command::run.
sub new {
    my ($class, %arg) = @_;
    return bless {
        root => $arg{root} // '',
        run => $arg{run} // \&Ashlar::Command::run,
        appear => $arg{appear_seconds} // $APPEAR_SECONDS,
    }, $class;
}

# --- files of the kernel

sub file {
    my ($self, $path) = @_;
    open(my $handle, '<', "$self->{root}$path") or return undef;
    local $/;
    my $text = <$handle>;
    return undef if !defined $text;
    $text =~ s/\s+\z//;
    return $text;
}

sub entries {
    my ($self, $path) = @_;
    opendir(my $handle, "$self->{root}$path") or return ();
    return sort grep { !/\A\./ } readdir($handle);
}

# Writing to sysfs can wait for a device forever, so a process does it that may be abandoned.
sub write_attribute {
    my ($self, $path, $value) = @_;
    my $done = $self->{run}->(['/bin/sh', '-c', 'printf %s "$1" > "$2"', 'sh', $value, "$self->{root}$path"],
        timeout => $SCAN_SECONDS);
    die "can't write \"$value\" to $path: $done->{err}\n" if $done->{code} != 0;
    return;
}

sub command {
    my ($self, @command) = @_;
    return $self->{run}->(\@command, timeout => $COMMAND_SECONDS);
}

sub must {
    my ($self, @command) = @_;
    my $done = $self->command(@command);
    return $done->{out} if $done->{code} == 0;
    (my $why = $done->{err} || $done->{out}) =~ s/\s+\z//;
    die "\"@command\" failed ($done->{code}): $why\n";
}

# --- sessions

# The node's iSCSI name.
sub iqn {
    my ($self) = @_;
    my $text = $self->file($IQN_FILE);
    die "$IQN_FILE is missing: install open-iscsi\n" if !defined $text;
    return lc $1 if $text =~ /^\s*InitiatorName\s*=\s*(\S+)/m;
    die "$IQN_FILE has no InitiatorName\n";
}

# Sessions to a target: {host => number, portal => "address:port", target => SCSI target id}.
sub sessions {
    my ($self, $target) = @_;
    my @found;
    for my $session ($self->entries('/sys/class/iscsi_session')) {
        my $folder = "/sys/class/iscsi_session/$session";
        next if ($self->file("$folder/targetname") // '') ne $target;
        next if ($self->file("$folder/state") // '') ne 'LOGGED_IN';
        my $device = readlink("$self->{root}$folder/device") // '';
        $device = readlink("$self->{root}$folder") // '' if $device !~ /host\d+/;
        my ($host) = $device =~ m!/?host(\d+)/! or next;
        (my $connection = $session) =~ s/\Asession(\d+)\z/connection$1:0/;
        my $address = $self->file("/sys/class/iscsi_connection/$connection/persistent_address") // '';
        my $port = $self->file("/sys/class/iscsi_connection/$connection/persistent_port") // '';
        push @found, { host => $host, portal => portal_name($address, $port), target => $self->file("$folder/target_id") // 0 };
    }
    return @found;
}

sub portal_name {
    my ($address, $port) = @_;
    return $address =~ /:/ ? "[$address]:$port" : "$address:$port";
}

# Logs in to the portals that there is no session with. Some may fail, one must work.
sub ensure_sessions {
    my ($self, $target, @portals) = @_;
    my %there = map { $_->{portal} => 1 } $self->sessions($target);
    my @errors;
    for my $portal (@portals) {
        next if $there{$portal};
        eval { $self->login($target, $portal); 1 } or push @errors, "$portal: $@";
    }
    my @sessions = $self->sessions($target);
    die "no iSCSI session with $target: @errors\n" if !@sessions;
    warn "no iSCSI session with some portals of $target, fewer paths than there could be: @errors\n" if @errors;
    return @sessions;
}

sub login {
    my ($self, $target, $portal) = @_;
    my @node = ('iscsiadm', '-m', 'node', '-T', $target, '-p', $portal);
    $self->must(@node, '-o', 'new');
    # LUNs are scanned one by one; sessions are made when they are needed; multipath has to hear of a lost path soon.
    my %setting = ('node.session.scan' => 'manual', 'node.startup' => 'manual', 'node.session.timeo.replacement_timeout' => 15);
    $self->must(@node, '-o', 'update', '-n', $_, '-v', $setting{$_}) for sort keys %setting;
    my $done = $self->{run}->([@node, '--login'], timeout => $LOGIN_SECONDS);
    return if $done->{code} == 0 || $done->{code} == $ISCSIADM_SESSION_EXISTS;
    $done->{err} =~ s/\s+\z//;
    die "log-in failed ($done->{code}): $done->{err}\n";
}

# --- devices of a LUN

# The WWID of a disk as sysfs has it, such as naa.6…; undef if it can't be read.
sub wwid {
    my ($self, $disk) = @_;
    my $wwid = $self->file("/sys/block/$disk/device/wwid") // return undef;
    # The kernel pads it with null characters.
    $wwid =~ s/[\s\0]+\z//;
    return $wwid ne '' ? lc $wwid : undef;
}

# naa: the identifier without prefix.
sub bare {
    my ($naa) = @_;
    (my $hex = lc $naa) =~ s/\A(?:naa\.|0x)//;
    die "\"$naa\" is not an NAA identifier\n" if $hex !~ /\A[0-9a-f]{32}\z|\A[0-9a-f]{16}\z/;
    return $hex;
}

# The `sd` disks that are paths of a LUN.
sub paths {
    my ($self, $naa) = @_;
    my $wanted = 'naa.' . bare($naa);
    return grep { ($self->wwid($_) // '') eq $wanted } grep { /\Asd[a-z]+\z/ } $self->entries('/sys/block');
}

# The multipath map of a LUN, such as dm-3; undef if there is none.
sub map_of {
    my ($self, $naa) = @_;
    my $uuid = 'mpath-3' . bare($naa);
    for my $dm (grep { /\Adm-\d+\z/ } $self->entries('/sys/block')) {
        return $dm if ($self->file("/sys/block/$dm/dm/uuid") // '') eq $uuid;
    }
    return undef;
}

# The path by which the LUN is used, the same whether it is attached or not.
sub device_path {
    my ($self, $naa, $multipath) = @_;
    my $hex = bare($naa);
    return $multipath ? "/dev/disk/by-id/dm-uuid-mpath-3$hex" : "/dev/disk/by-id/wwn-0x$hex";
}

sub bytes_of {
    my ($self, $block) = @_;
    my $sectors = $self->file("/sys/block/$block/size");
    die "the size of $block can't be read\n" if !defined $sectors || $sectors !~ /\A\d+\z/;
    return $sectors * $SECTOR_BYTES;
}

# The disk at an address, if there is one.
sub disk_at {
    my ($self, $host, $target, $lun) = @_;
    my ($disk) = $self->entries("/sys/class/scsi_device/$host:0:$target:$lun/device/block");
    return $disk;
}

# Makes a LUN a block device of this node, and returns its path.
# lun: {naa, lun, target, portals => [..], size (bytes), multipath}.
sub attach {
    my ($self, $lun) = @_;
    my $path = $self->device_path($lun->{naa}, $lun->{multipath});
    my @sessions = $self->ensure_sessions($lun->{target}, @{ $lun->{portals} });
    $self->scan($_, $lun) for @sessions;
    my $end = time() + $self->{appear};
    my @paths;
    while (1) {
        @paths = $self->paths($lun->{naa});
        last if @paths;
        die "LUN $lun->{lun} of $lun->{target} does not appear as naa." . bare($lun->{naa}) . " on this node\n" if time() > $end;
        sleep($POLL_SECONDS);
        # A LUN that was published while another scan ran is missed by that scan.
        $self->scan($_, $lun) for @sessions;
    }
    $self->assemble($lun, $end) if $lun->{multipath};
    $self->fit($lun->{naa}, $lun->{size}, $lun->{multipath});
    while (!-e "$self->{root}$path") {
        die "udev does not make $path\n" if time() > $end;
        sleep($POLL_SECONDS);
    }
    return $path;
}

# Scans one LUN through one session, unless its disk is there already. A disk of another LUN that was at this address
# before is removed if nothing uses it.
sub scan {
    my ($self, $session, $lun) = @_;
    my ($host, $target) = @{$session}{qw(host target)};
    my $wanted = 'naa.' . bare($lun->{naa});
    if (my $disk = $self->disk_at($host, $target, $lun->{lun})) {
        return if ($self->wwid($disk) // '') eq $wanted;
        # The kernel reads the identifier again only if it is asked to.
        $self->write_attribute("/sys/block/$disk/device/rescan", '1');
        my $now = $self->wwid($disk) // '';
        return if $now eq $wanted;
        $self->settle;
        if (my @users = $self->users($disk)) {
            die "$disk at LUN $lun->{lun} still is $now, which is in use (@users): release it first\n";
        }
        $self->write_attribute("/sys/block/$disk/device/delete", '1');
    }
    $self->write_attribute("/sys/class/scsi_host/host$host/scan", "0 $target $lun->{lun}");
    return;
}

# Gives the disks of a LUN to multipathd and waits for the map.
sub assemble {
    my ($self, $lun, $end) = @_;
    my %given;
    while (1) {
        my $map = $self->map_of($lun->{naa});
        for my $disk ($self->paths($lun->{naa})) {
            next if $map && grep { $_ eq $disk } $self->entries("/sys/block/$map/slaves");
            next if $given{$disk}++;
            # `find_multipaths strict` wants to know the WWID first.
            $self->command('multipath', '-a', "/dev/$disk");
            $self->command('multipathd', 'add', 'path', $disk);
        }
        return if $self->map_of($lun->{naa});
        die 'multipathd makes no map of 3' . bare($lun->{naa}) . ": is it running, and is ASHLAR not on its blacklist?\n"
            if time() > $end;
        sleep($POLL_SECONDS);
    }
}

# Brings disks and map to the size that the array reports, if they are here. True if something had to be changed.
sub fit {
    my ($self, $naa, $size, $multipath) = @_;
    my $changed = 0;
    for my $disk ($self->paths($naa)) {
        next if $self->bytes_of($disk) == $size;
        $self->write_attribute("/sys/block/$disk/device/rescan", '1');
        $changed = 1;
        my $now = $self->bytes_of($disk);
        die "$disk has $now bytes although its LUN has $size: is another volume at its address?\n" if $now != $size;
    }
    my $map = $self->map_of($naa) or return $changed;
    if ($self->bytes_of($map) != $size) {
        $self->must('multipathd', 'resize', 'map', $self->map_name($map));
        $changed = 1;
        my $now = $self->bytes_of($map);
        die "the multipath map $map has $now bytes although its LUN has $size\n" if $now != $size;
    }
    return $changed;
}

sub map_name {
    my ($self, $map) = @_;
    return $self->file("/sys/block/$map/dm/name") // die "the name of the multipath map $map can't be read\n";
}

# --- who uses a device

# What uses a block device, as texts; empty if nothing does. Dies if that can't be found out.
sub users {
    my ($self, $block) = @_;
    my $number = $self->file("/sys/block/$block/dev");
    die "it can't be found out whether $block is in use: its number can't be read\n" if !defined $number || $number !~ /\A\d+:\d+\z/;
    my @users = map { "device $_ is on it" } $self->entries("/sys/block/$block/holders");
    for my $part (grep { /\A\Q$block\E/ } $self->entries("/sys/block/$block")) {
        push @users, map { "device $_ is on its partition $part" } $self->entries("/sys/block/$block/$part/holders");
    }
    push @users, $self->mounts($block, $number);
    push @users, $self->openers($block, $number);
    return @users;
}

sub mounts {
    my ($self, $block, $number) = @_;
    my $table = $self->file('/proc/self/mountinfo');
    die "it can't be found out whether $block is mounted: /proc/self/mountinfo can't be read\n" if !defined $table;
    my %numbers = ($number => 1);
    for my $part (grep { /\A\Q$block\E/ } $self->entries("/sys/block/$block")) {
        my $its = $self->file("/sys/block/$block/$part/dev");
        $numbers{$its} = 1 if defined $its;
    }
    my @mounted;
    for my $line (split /\n/, $table) {
        my (undef, undef, $of, undef, $where) = split ' ', $line;
        push @mounted, "mounted at $where" if defined $of && $numbers{$of};
    }
    return @mounted;
}

# Processes that have it open, the virtual machines among them. A map's count of openers is the kernel's own answer.
sub openers {
    my ($self, $block, $number) = @_;
    if ($block =~ /\Adm-/) {
        my $count = $self->must('dmsetup', 'info', '-c', '--noheadings', '-o', 'open', $self->map_name($block));
        $count =~ s/\s+//g;
        die "it can't be found out whether $block is in use: dmsetup says \"$count\"\n" if $count !~ /\A\d+\z/;
        return () if $count == 0;
        my @names = $self->processes($number);
        return @names ? @names : ("open $count times");
    }
    return $self->processes($number);
}

sub processes {
    my ($self, $number) = @_;
    my ($major, $minor) = split /:/, $number;
    my @pids = grep { /\A\d+\z/ } $self->entries('/proc');
    die "it can't be found out which processes use a device: /proc can't be read\n" if !@pids;
    my @found;
    for my $pid (@pids) {
        for my $handle ($self->entries("/proc/$pid/fd")) {
            my $at = readlink("$self->{root}/proc/$pid/fd/$handle") // next;
            next if $at !~ m!\A/dev/!;
            my $rdev = $self->device_number("/proc/$pid/fd/$handle", $at) // next;
            next if $rdev ne "$major:$minor";
            push @found, "process $pid (" . ($self->file("/proc/$pid/comm") // 'unknown') . ')';
            last;
        }
    }
    return @found;
}

# The number of the device that an open file is.
sub device_number {
    my ($self, $file) = @_;
    my @stat = stat("$self->{root}$file") or return undef;
    return undef if !-b _;
    my $device = $stat[6];
    # The encoding of Linux' dev_t in the C library.
    my $major = (($device >> 8) & 0xfff) | (($device >> 32) & ~0xfff);
    my $minor = ($device & 0xff) | (($device >> 12) & ~0xff);
    return "$major:$minor";
}

# --- taking a LUN away

# Waits until udev has looked at new devices, which it opens for that.
sub settle {
    my ($self) = @_;
    $self->command('udevadm', 'settle', "--timeout=$SETTLE_SECONDS");
    return;
}

# Dies if anything on this node uses the LUN.
sub refuse_if_used {
    my ($self, $naa, $what) = @_;
    $self->settle;
    my $map = $self->map_of($naa);
    # The paths below a map have the map as their holder.
    for my $block ($map ? ($map) : $self->paths($naa)) {
        my @users = $self->users($block);
        die "$what is in use on this node: " . join(', ', @users) . "\n" if @users;
    }
    return;
}

# Removes the devices of a LUN from this node; nothing to do if there are none. Dies if something uses it.
sub detach {
    my ($self, $naa, $what) = @_;
    $self->refuse_if_used($naa, $what);
    if (my $map = $self->map_of($naa)) {
        my $name = $self->map_name($map);
        $self->must('blockdev', '--flushbufs', "/dev/$map");
        my $done = $self->command('multipath', '-f', $name);
        $self->must('multipathd', 'del', 'map', $name) if $done->{code} != 0 && $self->map_of($naa);
        die "the multipath map $name of $what can't be removed\n" if $self->map_of($naa);
    }
    my $wanted = 'naa.' . bare($naa);
    for my $disk ($self->paths($naa)) {
        $self->must('blockdev', '--flushbufs', "/dev/$disk");
        # The name may belong to another disk by now.
        next if ($self->wwid($disk) // '') ne $wanted;
        $self->write_attribute("/sys/block/$disk/device/delete", '1');
    }
    $self->command('multipath', '-w', '3' . bare($naa));
    return;
}

1;

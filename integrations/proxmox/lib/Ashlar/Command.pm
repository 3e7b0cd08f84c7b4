package Ashlar::Command;

# Host commands with a time limit that holds even if the kernel does not let the command die: a process that waits for a
# device (state D) can't be killed, and what waits for it hangs as well. Such a process is left alone and reaped later.

use strict;
use warnings;

use IO::Select;
use POSIX qw(WNOHANG);
use Time::HiRes qw(sleep time);

my $POLL_SECONDS = 0.05;
my $KILL_WAIT_SECONDS = 1;

# Processes that did not end when they were killed.
my %abandoned;

# Runs `command` (a list, no shell). Returns {code, out, err}; `code` is -1 if it was ended by a signal.
# Dies if it can't be started or does not end within `timeout` seconds.
sub run {
    my ($command, %how) = @_;
    reap();
    my $timeout = $how{timeout} // 30;
    pipe(my $out_read, my $out_write) or die "can't make a pipe: $!\n";
    pipe(my $err_read, my $err_write) or die "can't make a pipe: $!\n";
    my $pid = fork() // die "can't start $command->[0]: $!\n";
    if (!$pid) {
        # Its own group, so that what it starts is killed with it.
        setpgrp(0, 0);
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>&', $out_write);
        open(STDERR, '>&', $err_write);
        exec { $command->[0] } @$command or POSIX::_exit(127);
    }
    close($_) for $out_write, $err_write;
    my %text = (out => '', err => '');
    my %name = (fileno($out_read) => 'out', fileno($err_read) => 'err');
    my $open = IO::Select->new($out_read, $err_read);
    my $end = time() + $timeout;
    my $code;
    while (1) {
        for my $handle ($open->can_read($POLL_SECONDS)) {
            my $got = sysread($handle, my $bytes, 65536);
            if ($got) { $text{ $name{ fileno($handle) } } .= $bytes; }
            else { $open->remove($handle); }
        }
        if (waitpid($pid, WNOHANG) == $pid) {
            $code = ($? & 127) ? -1 : $? >> 8;
            last;
        }
        if (time() > $end) {
            abandon($pid);
            die "\"@$command\" did not end within $timeout s\n";
        }
        sleep($POLL_SECONDS) if !$open->count;
    }
    # What it wrote just before it ended; a child of it may keep the pipe open, so nothing is waited for.
    for my $handle ($open->handles) {
        while (IO::Select->new($handle)->can_read(0)) {
            my $got = sysread($handle, my $bytes, 65536);
            last if !$got;
            $text{ $name{ fileno($handle) } } .= $bytes;
        }
    }
    die "can't run $command->[0]: is it installed?\n" if $code == 127 && $text{out} eq '';
    return { code => $code, %text };
}

# Runs a command that must succeed, and returns its output.
sub output {
    my ($command, %how) = @_;
    my $done = run($command, %how);
    return $done->{out} if $done->{code} == 0;
    (my $why = $done->{err} || $done->{out}) =~ s/\s+\z//;
    die "\"@$command\" failed ($done->{code}): $why\n";
}

sub abandon {
    my ($pid) = @_;
    kill('KILL', -$pid);
    my $end = time() + $KILL_WAIT_SECONDS;
    while (time() < $end) {
        return if waitpid($pid, WNOHANG) == $pid;
        sleep($POLL_SECONDS);
    }
    $abandoned{$pid} = 1;
    return;
}

sub reap {
    for my $pid (keys %abandoned) {
        delete $abandoned{$pid} if waitpid($pid, WNOHANG) != 0;
    }
    return;
}

1;

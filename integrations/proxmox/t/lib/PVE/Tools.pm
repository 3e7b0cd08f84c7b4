package PVE::Tools;

# Stub of the two functions that the plug-in uses, written from their documented behaviour.

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(run_command file_set_contents);

sub run_command {
    my ($command, %how) = @_;
    my $pid = fork() // die "fork: $!\n";
    if (!$pid) {
        if (my $input = $how{input}) { open(STDIN, $input) or die "input: $!"; }
        if (my $output = $how{output}) { open(STDOUT, $output) or die "output: $!"; }
        exec @$command or die "exec: $!";
    }
    waitpid($pid, 0);
    die "command '@$command' failed: exit code " . ($? >> 8) . "\n" if $?;
    return 0;
}

sub file_set_contents {
    my ($path, $contents, $mode) = @_;
    my $old = umask(0777 & ~($mode // 0644));
    open(my $file, '>', "$path.tmp") or die "$path: $!\n";
    umask($old);
    print {$file} $contents;
    close($file) or die "$path: $!\n";
    rename("$path.tmp", $path) or die "$path: $!\n";
    return;
}

1;

# Time limits of host commands.

use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);

use Ashlar::Command;

subtest 'output and exit status' => sub {
    is_deeply(Ashlar::Command::run(['/bin/sh', '-c', 'echo out; echo err >&2; exit 3']), { code => 3, out => "out\n", err => "err\n" });
    is(Ashlar::Command::output(['/bin/echo', '$HOME; x']), "\$HOME; x\n", 'no shell');
    ok(!eval { Ashlar::Command::output(['/bin/false']); 1 }, 'a failure dies');
    like(eval { Ashlar::Command::run(['/nonexistent/program']); '' } // $@, qr/is it installed/, 'a missing program');
    my $long = Ashlar::Command::run(['/bin/sh', '-c', 'head -c 300000 /dev/zero | tr "\0" x']);
    is(length $long->{out}, 300000, 'more than a pipe holds');
};

subtest 'a command that does not end is left' => sub {
    my $begin = time();
    ok(!eval { Ashlar::Command::run(['/bin/sleep', '600'], timeout => 0.3); 1 }, 'it dies');
    like($@, qr/did not end within 0.3 s/);
    ok(time() - $begin < 60, 'without waiting for the command');
};

subtest 'a grandchild that keeps the output open is not waited for' => sub {
    my $begin = time();
    my $done = Ashlar::Command::run(['/bin/sh', '-c', 'sleep 600 & echo $!']);
    like($done->{out}, qr/\A\d+\n\z/);
    ok(time() - $begin < 60);
    kill('KILL', $done->{out} =~ /(\d+)/);
};

done_testing;

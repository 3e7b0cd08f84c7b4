# An array that is away, refuses, or is of another version.

use strict;
use warnings;
use IO::Socket::INET;
use Test::More;

use Rig;
use Plugin;

my $CLASS = 'PVE::Storage::Custom::AshlarPlugin';

# A server that gives one answer to everything and counts requests in a file.
sub serve {
    my ($status, $body) = @_;
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5, ReuseAddr => 1) or die;
    my $counter = File::Temp->new;
    my $pid = fork() // die;
    if (!$pid) {
        while (my $client = $socket->accept) {
            syswrite($counter, '.');
            while (my $line = <$client>) { last if $line =~ /^\r?\n/; }
            print {$client} "HTTP/1.1 $status X\r\nContent-Length: " . length($body) . "\r\nConnection: close\r\n\r\n$body";
            close($client);
        }
        POSIX::_exit(0);
    }
    my $port = $socket->sockport;
    close($socket);
    return { pid => $pid, url => "http://127.0.0.1:$port", asked => sub { return -s $counter->filename } };
}

sub end { kill('KILL', $_[0]{pid}); waitpid($_[0]{pid}, 0); return; }

my $array = Rig->start_array;
my $node = Rig::Node->new($array, 'node1')->enter;

subtest 'versions' => sub {
    my $other = serve(200, '{"version":"9.8.7","driver_api":{"min":2,"max":3},"state":"online"}');
    my $error = Plugin::error_of(sub { Plugin->new({ url => $other->{url}, token => 't' }) });
    like($error, qr/runs Ashlar 9\.8\.7 and serves driver API 2 to 3; this plug-in is \Q$Ashlar::Array::VERSION\E and speaks 1/, 'both are named');
    end($other);
    my $stranger = serve(200, '{"hello":"world"}');
    like(Plugin::error_of(sub { Plugin->new({ url => $stranger->{url}, token => 't' }) }), qr/does not say which driver API/, 'something else that speaks JSON');
    end($stranger);
    my $web = serve(200, '<html>');
    like(Plugin::error_of(sub { Plugin->new({ url => $web->{url}, token => 't' }) }), qr/not JSON: is this the address of an array/, 'a web server');
    end($web);
};

subtest 'adding and changing a storage' => sub {
    like(Plugin::error_of(sub { $CLASS->on_add_hook('x', { 'ashlar-url' => $array->{url} }) }), qr/token of the array is needed/);
    like(Plugin::error_of(sub { Plugin->new($array, token => 'wrong') }), qr/refuses the token.*pvesm set/s, 'a wrong token is refused at once');
    like(Plugin::error_of(sub { Plugin->new({ url => 'ftp://x', token => 't' }) }), qr/not the address of an array/);
    my $storage = Plugin->new($array);
    my $file = "$PVE::Storage::Custom::AshlarPlugin::PRIVATE/flash.1.pw";
    is((stat $file)[2] & 0777, 0600, 'the token is root\'s alone');
    like(Plugin::error_of(sub { $CLASS->on_update_hook_full('flash.1', $storage->{scfg}, {}, [], { password => 'wrong' }) }), qr/refuses the token/, 'a wrong new token');
    is($storage->get_identity, $array->must('GET', 'status')->{id}, 'and the old one still works');
    $CLASS->on_update_hook('flash.1', {}, password => $array->{token});
    $CLASS->on_delete_hook('flash.1', $storage->{scfg});
    ok(!-e $file, 'it goes with the storage');
    like(Plugin::error_of(sub { $storage->alloc_image(1, 'raw', undef, 1024) }), qr/token of storage flash.1 is missing/);
};

subtest 'a token that was revoked' => sub {
    my $made = $array->must('POST', 'tokens', { name => 'pve', role => 'operator' });
    my $storage = Plugin->new($array, token => $made->{secret});
    is($storage->alloc_image(1, 'raw', undef, 1024), 'vm-1-disk-0', 'an operator is enough');
    $array->must('DELETE', 'tokens/pve');
    like(Plugin::error_of(sub { $storage->alloc_image(1, 'raw', undef, 1024) }), qr/refuses the token/);
};

subtest 'an array that is away' => sub {
    my $storage = Plugin->new($array, id => 'away');
    ok($storage->check_connection);
    my $silent = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die;
    my $port = $silent->sockport;
    close($silent);
    $storage->{scfg}{'ashlar-url'} = "http://127.0.0.1:$port";
    like(Plugin::error_of(sub { $storage->alloc_image(1, 'raw', undef, 1024) }), qr/no answer/, 'says so');
};

subtest 'polling an array that is away is not repeated at once' => sub {
    my $slow = serve(599, '');
    my $storage = bless { id => 'slow', scfg => { 'ashlar-url' => $slow->{url} } }, 'Plugin';
    PVE::Storage::Custom::AshlarPlugin::keep_token('slow', 't');
    like(Plugin::error_of(sub { $storage->status }), qr/no answer/) for 1 .. 5;
    like(Plugin::error_of(sub { $storage->check_connection }), qr/no answer/);
    is($slow->{asked}->(), 1, 'asked once');
    end($slow);
};

subtest 'no request is made for a status that was just answered' => sub {
    my $counted = serve(200, '{"version":"1","driver_api":{"min":1,"max":1},"state":"online","id":"x","capacity":{"total":9,"used":4,"free":5}}');
    my $storage = bless { id => 'counted', scfg => { 'ashlar-url' => $counted->{url} } }, 'Plugin';
    PVE::Storage::Custom::AshlarPlugin::keep_token('counted', 't');
    is($storage->check_connection, 1);
    is_deeply([$storage->status], [9, 5, 4, 1]);
    is($counted->{asked}->(), 1);
    end($counted);
};

done_testing;

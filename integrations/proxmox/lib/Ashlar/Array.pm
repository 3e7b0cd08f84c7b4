package Ashlar::Array;

# Client of an array's API. Every request has a time limit, is repeated only where that is safe, and fails with an
# Ashlar::Error that names the array and says what to do.

use strict;
use warnings;

use Digest::SHA qw(sha256);
use HTTP::Tiny;
use JSON::PP ();
use Time::HiRes ();

use Ashlar::Error;

# The version of the driver API that this client speaks; arrays report the range that they serve.
use constant DRIVER_API => 1;

our $VERSION = '0.1.0';

my $BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
my $MAX_NAME_CHARS = 63;
my $HASH_CHARS = 26;
my $REQUEST_TIMEOUT_SECONDS = 30;
my $ATTEMPTS = 3;
my $RETRY_PAUSE_SECONDS = 0.5;

my $json = JSON::PP->new->utf8->canonical;

# url: https://address[:port]; token: an operator's API token; label: what errors call this array.
# fingerprint: SHA-256 of the array's certificate as hex digits, with or without colons; ca_file: trusted certificates.
sub new {
    my ($class, %arg) = @_;
    my $url = $arg{url} // '';
    $url =~ s!/+\z!!;
    die "\"$url\" is not the address of an array: write it as https://ADDRESS or https://ADDRESS:PORT\n"
        if $url !~ m!\Ahttps?://(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(?::\d+)?\z!;
    my %tls;
    if (my $fingerprint = $arg{fingerprint}) {
        (my $hex = lc $fingerprint) =~ s/://g;
        die "the fingerprint of an array is the SHA-256 of its certificate: 64 hex digits\n" if $hex !~ /\A[0-9a-f]{64}\z/;
        # The pinned certificate stands for both the chain and the name.
        %tls = (SSL_fingerprint => "sha256\$$hex", SSL_verifycn_scheme => 'none');
    } elsif ($arg{ca_file}) {
        %tls = (SSL_ca_file => $arg{ca_file});
    }
    my $self = {
        url => $url,
        token => $arg{token} // '',
        label => $arg{label} // $url,
        tls => \%tls,
        checked => 0,
    };
    return bless $self, $class;
}

# The name on the array of `name` under `prefix`: readable if it fits, else the documented hash of it.
sub object_name {
    my ($prefix, $name) = @_;
    my $full = "$prefix-$name";
    return $full if length($full) <= $MAX_NAME_CHARS && $full =~ /\A[A-Za-z0-9][A-Za-z0-9_.-]*\z/;
    utf8::encode(my $bytes = $full);
    my $bits = unpack('B*', sha256($bytes));
    my $hash = join '', map { substr($BASE32, oct("0b$_"), 1) } substr($bits, 0, 5 * $HASH_CHARS) =~ /(.{5})/g;
    return "pve-$hash";
}

sub escape {
    my ($text) = @_;
    utf8::encode($text);
    $text =~ s/([^A-Za-z0-9_.~-])/sprintf('%%%02X', ord($1))/ge;
    return $text;
}

# A `label=` condition for lists: all of `labels` must hold.
sub label_query {
    my (%labels) = @_;
    my @conditions = map { my $it = "$_=$labels{$_}"; $it =~ s/([\\,])/\\$1/g; $it } sort keys %labels;
    return 'label=' . escape(join ',', @conditions);
}

sub get { my ($self, $path, %how) = @_; return $self->request('GET', $path, undef, %how); }
sub post { my ($self, $path, $body, %how) = @_; return $self->request('POST', $path, $body, %how); }
sub patch { my ($self, $path, $body, %how) = @_; return $self->request('PATCH', $path, $body, %how); }

# What is not there counts as deleted; true if it was there.
sub delete {
    my ($self, $path) = @_;
    my $done = eval { $self->request('DELETE', $path); 1 };
    return 1 if $done;
    my $error = $@;
    return 0 if Ashlar::Error::is($error, 'not_found');
    die $error;
}

# The object, or undef if there is none of this name or id.
sub find {
    my ($self, $path) = @_;
    my $object = eval { $self->get($path) };
    return $object if $object;
    my $error = $@;
    return undef if Ashlar::Error::is($error, 'not_found');
    die $error;
}

# Identity, state and capacity. `timeout` in seconds, without repetitions: for callers that poll.
sub status {
    my ($self, %how) = @_;
    my $status = $self->request('GET', 'status', undef, unchecked => 1, %how);
    $self->check_version($status);
    return $status;
}

# Refuses an array whose driver API does not include ours, naming both versions.
sub check_version {
    my ($self, $status) = @_;
    my $range = ref $status eq 'HASH' ? $status->{driver_api} : undef;
    my $version = (ref $status eq 'HASH' && $status->{version}) || 'unknown';
    my ($min, $max) = ref $range eq 'HASH' ? @{$range}{qw(min max)} : ();
    if (!defined $min || !defined $max || $min > DRIVER_API || $max < DRIVER_API) {
        my $serves = defined $min && defined $max ? "serves driver API $min to $max" : 'does not say which driver API it serves';
        $self->fail('version', undef, "the array runs Ashlar $version and $serves; this plug-in is $VERSION and speaks "
            . DRIVER_API . ': install the version of the plug-in that belongs to the array');
    }
    $self->{checked} = 1;
    return;
}

# One request. Refusals of the array die with their kind; so do `unreachable` and `version`.
# All that this client sends may be repeated (the array's creations have ensure semantics), so a lost connection is.
sub request {
    my ($self, $method, $path, $body, %how) = @_;
    $self->status(%how) if !$self->{checked} && !$how{unchecked};
    my $attempts = $how{timeout} ? 1 : $ATTEMPTS;
    my $http = HTTP::Tiny->new(
        agent => "ashlar-proxmox/$VERSION",
        timeout => $how{timeout} // $REQUEST_TIMEOUT_SECONDS,
        verify_SSL => 1,
        SSL_options => $self->{tls},
        # The array's address is on the management network; a proxy for the web has no business there.
        proxy => undef, http_proxy => undef, https_proxy => undef,
    );
    my %options = (headers => { Authorization => "Bearer $self->{token}", Accept => 'application/json' });
    if (defined $body) {
        $options{headers}{'Content-Type'} = 'application/json';
        $options{content} = $json->encode($body);
    }
    my $answer;
    for my $attempt (1 .. $attempts) {
        $answer = $http->request($method, "$self->{url}/api/v1/$path", \%options);
        # 599 is HTTP::Tiny's own: there was no answer. 503: the array is starting or being replaced.
        last if $answer->{status} != 599 && $answer->{status} != 503;
        Time::HiRes::sleep($RETRY_PAUSE_SECONDS * $attempt) if $attempt < $attempts;
    }
    return $self->outcome($answer);
}

sub outcome {
    my ($self, $answer) = @_;
    my ($status, $content) = ($answer->{status}, $answer->{content} // '');
    if ($status == 599) {
        $content =~ s/\s+\z//;
        $self->fail('unreachable', undef, "there is no answer: $content; check the address and the network");
    }
    if ($status >= 200 && $status < 300) {
        return {} if $content eq '';
        my $object = eval { $json->decode($content) };
        $self->fail('failed', $status, 'the answer is not JSON: is this the address of an array?') if ref $object ne 'HASH';
        return $object;
    }
    my $problem = eval { $json->decode($content) };
    $problem = {} if ref $problem ne 'HASH';
    my $detail = $problem->{detail} // "HTTP status $status";
    if ($status == 401) {
        $self->fail('unauthorized', 401, "it refuses the token ($detail): create one with \"ashlar token create\" and set it "
            . 'with "pvesm set STORAGE --ashlar-token TOKEN"');
    }
    $self->fail($problem->{kind} // 'failed', $status, $detail, $problem->{field});
    return;
}

sub fail {
    my ($self, $kind, $status, $detail, $field) = @_;
    die Ashlar::Error->new(kind => $kind, status => $status, field => $field, text => "array $self->{label}: $detail");
}

# All items of a list.
sub list {
    my ($self, $path, %how) = @_;
    return @{ $self->get($path, %how)->{items} // [] };
}

1;

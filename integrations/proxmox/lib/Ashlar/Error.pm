package Ashlar::Error;

# A refusal or failure with its machine-readable kind. As a string it is a message with a line end, as Proxmox VE prints it.

use strict;
use warnings;

use overload '""' => sub { $_[0]->{text} . "\n" }, 'bool' => sub { 1 }, fallback => 1;

sub new {
    my ($class, %arg) = @_;
    return bless {%arg}, $class;
}

sub kind { return $_[0]->{kind}; }

# Whether something that was caught is an error of this kind.
sub is {
    my ($error, $kind) = @_;
    return ref $error && eval { $error->isa(__PACKAGE__) } && $error->{kind} eq $kind;
}

1;

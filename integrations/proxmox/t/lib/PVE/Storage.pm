package PVE::Storage;

# Stub of the storage layer: the version of its interface.

use strict;
use warnings;

our $API = 15;

sub APIVER { return $API; }

1;

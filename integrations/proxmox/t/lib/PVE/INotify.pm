package PVE::INotify;

use strict;
use warnings;

our $NODE = 'node1';

sub nodename { return $NODE; }

1;

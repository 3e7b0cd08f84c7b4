# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""What Nova does on a node with os-brick, for the guest of xtask.

Usage: node.py attach|extend|detach, with what the driver has returned on
standard input. Prints the path of the device, or its size in bytes.
"""

import json
import sys

import os_brick
from os_brick import privileged
from os_brick.initiator import connector
from oslo_concurrency import lockutils
from oslo_config import cfg

# Where the device that was attached is kept.
STATE = '/tmp/os-brick.json'


def main(verb):
    cfg.CONF([])
    lockutils.set_defaults('/run/lock/os-brick')
    os_brick.setup(cfg.CONF)
    # Root needs no other process.
    privileged.default.set_client_mode(False)
    info = json.load(sys.stdin)
    node = connector.InitiatorConnector.factory(
        'ISCSI', root_helper='', use_multipath=True, enforce_multipath=True,
        device_scan_attempts=10)
    if verb == 'attach':
        device = node.connect_volume(info['data'])
        with open(STATE, 'w') as file:
            json.dump(device, file)
        return device['path']
    if verb == 'extend':
        return node.extend_volume(info['data'])
    if verb == 'detach':
        with open(STATE) as file:
            device = json.load(file)
        node.disconnect_volume(info['data'], device)
        return 'detached'
    raise SystemExit(__doc__)


if __name__ == '__main__':
    print(main(sys.argv[1]))

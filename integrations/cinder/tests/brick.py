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
"""One call of the driver, for a node elsewhere: the guest of xtask.

Usage: brick.py PORT TOKEN CERTIFICATE create|attach|extend|detach|delete
ID [INITIATOR | GIBIBYTES]
"""

import json
import sys

from cinder import context
from cinder.objects import volume as volume_objects
from cinder.volume import configuration
from oslo_config import cfg

from ashlar_cinder import driver


def make_driver(port, token, certificate):
    config = configuration.Configuration(driver.OPTIONS,
                                         config_group='ashlar')
    made = driver.ISCSIDriver(configuration=config, host='node@ashlar#ashlar')
    for key, value in (('san_ip', '127.0.0.1'), ('san_api_port', port),
                       ('ashlar_api_token', token),
                       ('driver_ssl_cert_verify', True),
                       ('driver_ssl_cert_path', certificate)):
        cfg.CONF.set_override(key, value, group='ashlar')
    made.do_setup(None)
    made.check_for_setup_error()
    return made


def main(port, token, certificate, verb, name, *words):
    made = make_driver(int(port), token, certificate)
    volume = volume_objects.Volume(
        context.get_admin_context(), id=name, size=1, multiattach=False,
        host='node@ashlar#ashlar', display_name=None, volume_type_id=None,
        group_id=None, provider_id=None, name_id=None)
    connector = {'initiator': words[0] if words else None, 'host': 'guest'}
    if verb == 'create':
        return made.create_volume(volume)
    if verb == 'attach':
        return made.initialize_connection(volume, connector)
    if verb == 'extend':
        return made.extend_volume(volume, int(words[0]))
    if verb == 'detach':
        return made.terminate_connection(volume, connector)
    if verb == 'delete':
        return made.delete_volume(volume)
    raise SystemExit(__doc__)


if __name__ == '__main__':
    print(json.dumps(main(*sys.argv[1:])))

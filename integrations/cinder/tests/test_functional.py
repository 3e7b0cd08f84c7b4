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
"""Cinder's own functional suite with our driver as its back end."""

from cinder.tests.functional import test_group_snapshots
from cinder.tests.functional import test_groups
from cinder.tests.functional import test_volumes
from cinder.volume import configuration

import ashlar_cinder.driver  # noqa: registers the options
from tests import rig

ARRAY = None


def setUpModule():
    global ARRAY
    ARRAY = rig.RunningArray()


def tearDownModule():
    ARRAY.stop()


class OnAshlar(object):
    """Puts the live array in place of the suite's own driver."""

    def _get_flags(self):
        flags = super()._get_flags()
        group = configuration.SHARED_CONF_GROUP
        ours = {
            'volume_driver': 'ashlar_cinder.driver.ISCSIDriver',
            'san_ip': '127.0.0.1',
            'san_api_port': ARRAY.port,
            'ashlar_api_token': ARRAY.token,
            'driver_ssl_cert_verify': True,
            'driver_ssl_cert_path': ARRAY.certificate,
        }
        flags.update({key: {'v': value, 'g': group}
                      for key, value in ours.items()})
        return flags

    def tearDown(self):
        super().tearDown()
        left = ARRAY.ask('GET', 'volumes')['items']
        wrong = [it['name'] for it in left
                 if not it['labels'].get('cinder.volume')]
        self.assertEqual([], wrong, 'volumes that Cinder has not made')


class VolumesTest(OnAshlar, test_volumes.VolumesTest):
    pass


class GroupsTest(OnAshlar, test_groups.GroupsTest):
    pass


class GroupSnapshotsTest(OnAshlar, test_group_snapshots.GroupSnapshotsTest):
    pass

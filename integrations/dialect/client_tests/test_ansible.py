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
"""The Ansible collection for FlashArray, unmodified, against a live array."""

import json
import os
import re
import subprocess
import unittest

from client_tests import rig

GIB = 1 << 30
# What is asked of a collection's `purefa_info`.
SUBSETS = ['minimum', 'config', 'performance', 'capacity', 'volumes',
           'snapshots', 'pgroups', 'hgroups', 'vgroups', 'interfaces',
           'network', 'alerts', 'arrays', 'pods', 'admins', 'subnet']


class AnsibleTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.array = rig.Served('flash')
        cls.array.serve()
        cls.bin = os.path.join(os.environ['ANSIBLE'], 'bin')

    @classmethod
    def tearDownClass(cls):
        cls.array.stop()

    def play(self, name):
        """Runs a playbook, which must succeed; returns its changes."""
        books = os.path.join(os.path.dirname(__file__), '..', 'playbooks')
        values = {
            'ansible_python_interpreter': os.path.join(self.bin, 'python'),
            'information': self.information, 'subsets': SUBSETS}
        environment = dict(
            os.environ, PUREFA_URL=self.array.address,
            # It eradicates, which only an administrator may.
            PUREFA_API=self.array.token, HOME=self.array.folder,
            ANSIBLE_NOCOLOR='1', ANSIBLE_LOCALHOST_WARNING='0',
            PATH=self.bin + os.pathsep + os.environ['PATH'])
        # The path of the tests' packages is not that of Ansible's.
        environment.pop('PYTHONPATH')
        run = subprocess.run(
            [os.path.join(self.bin, 'ansible-playbook'), '--inventory',
             'localhost,', '--connection', 'local', '--extra-vars',
             json.dumps(values), os.path.join(books, name + '.yml')],
            env=environment, capture_output=True, text=True)
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)
        return int(re.search(r'changed=(\d+)', run.stdout).group(1))

    @property
    def information(self):
        return os.path.join(self.array.folder, 'information.json')

    def seen(self, path):
        return self.array.ask('GET', path)

    def names(self, kind):
        return {it['name'] for it in self.seen(kind)['items']}

    def test_playbooks(self):
        self.assertGreater(self.play('site'), 0)
        self.check_site()
        self.check_information()
        self.assertEqual(0, self.play('site'))
        self.assertGreater(self.play('changes'), 0)
        self.check_changes()

    def check_site(self):
        data = self.seen('volumes/data')
        self.assertEqual(
            (GIB, 5000, 100 << 20),
            (data['size'], data['limits']['iops'],
             data['limits']['bandwidth']))
        log = self.seen('volumes/log')
        self.assertEqual((2 * GIB, 'gold'), (log['size'], log['group']))
        self.assertEqual(7000, self.seen('groups/gold')['limits']['iops'])
        self.assertEqual(
            {'data', 'log', 'late', 'clone', 'many00', 'many01', 'many02'},
            self.names('volumes'))
        for name in ('node1', 'node2', 'node3'):
            host = self.seen('hosts/' + name)
            self.assertEqual(['iqn.1993-08.org.debian:01:' + name],
                             host['initiators'])
            self.assertEqual('esxi', host['labels']['flash.personality'])
        secure = self.seen('hosts/secure')
        self.assertEqual(('cloud', 'array'),
                         (secure['chap_user'], secure['mutual_user']))
        self.assertEqual(
            {('data', 'node1', None, 7), ('log', None, 'cluster', 5)},
            {(it['volume'], it['host'], it['host_group'], it['lun'])
             for it in self.seen('connections')['items']})
        self.assertEqual(['node2', 'node3'],
                         sorted(self.seen('host-groups/cluster')['hosts']))
        self.assertEqual(
            {'daily.monday.data', 'daily.monday.log', 'daily.monday.late'},
            self.names('snapshots'))
        taken = self.seen('snapshots?label=flash.set')['items']
        self.assertEqual(1, len({it['set'] for it in taken}))

    def check_information(self):
        with open(self.information) as file:
            found = json.load(file)
        of, space = self.seen('array'), self.seen('array')['space']
        default = found['default']
        self.assertEqual(
            (of['name'], 'Ashlar', 4, 7, 1, 1, 3),
            (default['array_name'], default['array_model'], default['hosts'],
             default['volumes'], default['protection_groups'],
             default['hostgroups'], default['snapshots']))
        capacity = found['capacity']
        self.assertEqual(
            (space['total'], space['provisioned'], space['mapped']),
            (capacity['total_capacity'], capacity['provisioned_space'],
             capacity['used_provisioned']))
        self.assertEqual(self.seen('settings')['time_zone'],
                         found['config']['timezone'])
        volume = found['volumes']['data']
        self.assertEqual(
            (GIB, 5000, [{'host': 'node1', 'lun': 7}]),
            (volume['size'], volume['iops_limit'], volume['hosts']))
        # The collection puts its vendor's number before an identifier.
        naa = self.seen('volumes/data')['naa']
        self.assertEqual(naa.removeprefix('naa.'), volume['serial'].lower())
        self.assertEqual([['gold/log', 5]],
                         found['hgroups']['cluster']['vols'])
        self.assertEqual(['gold/log'], found['vgroups']['gold']['volumes'])
        self.assertEqual({'data', 'gold/log', 'late'},
                         set(found['pgroups']['daily']['volumes']))

    def check_changes(self):
        data = self.seen('volumes/data')
        self.assertEqual(
            (3 * GIB, None, None),
            (data['size'], data['limits']['iops'],
             data['limits']['bandwidth']))
        self.assertEqual(
            {'data', 'log', 'early', 'clone', 'restored', 'many00',
             'many02'}, self.names('volumes'))
        self.assertEqual('gold', self.seen('volumes/early')['group'])
        binned = self.names('recycle-bin')
        self.assertNotIn('many01', binned)
        self.assertLessEqual(
            {'daily.monday.data', 'daily.monday.log', 'daily.monday.late',
             'data.before'}, binned)
        self.assertEqual(set(), self.names('snapshots'))
        self.assertEqual(GIB, self.seen('volumes/clone')['size'])
        self.assertEqual(['node2'], self.seen('host-groups/farm')['hosts'])
        self.assertEqual({'node2', 'node4', 'secure'}, self.names('hosts'))
        self.assertEqual([], self.seen('connections')['items'])
        self.assertNotIn('daily', self.names('groups'))

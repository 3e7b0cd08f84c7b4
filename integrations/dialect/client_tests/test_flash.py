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
"""The Pure Storage driver of Cinder, unmodified, against a live array."""

import uuid
import warnings

from cinder import context
from cinder import exception
from cinder import objects
from cinder.tests.unit import fake_group
from cinder.tests.unit import fake_group_snapshot
from cinder.tests.unit import fake_snapshot
from cinder.tests.unit import fake_volume
from cinder.tests.unit import test
from cinder.volume import configuration
from cinder.volume.drivers import pure
from cinder.volume import qos_specs
from cinder.volume import volume_types
from oslo_utils import units
from pypureclient import flasharray

from client_tests import rig

warnings.simplefilter('ignore')

ARRAY = None
NODE = {'initiator': 'iqn.1993-08.org.debian:01:one', 'host': 'compute-1',
        'system uuid': '7b6ee4a4-53f0-4fbd-8e7e-0d1a7c3b1b0d'}
SECOND = {'initiator': 'iqn.1993-08.org.debian:01:two', 'host': 'compute-2'}


def setUpModule():
    global ARRAY
    ARRAY = rig.Served('flash')
    ARRAY.serve()


def tearDownModule():
    ARRAY.stop()


class DriverTest(test.TestCase):

    def setUp(self):
        super().setUp()
        self.context = context.get_admin_context()
        self.driver = self.make_driver()
        # These read Cinder's database.
        self.patch('cinder.volume.drivers.pure.PureBaseVolumeDriver.'
                   '_get_attachments', return_value=('Data', None))

    def make_driver(self, **more):
        config = configuration.Configuration(
            pure.PURE_OPTS, config_group='pure-' + uuid.uuid4().hex)
        made = pure.PureISCSIDriver(configuration=config,
                                    host='node@flash#flash')
        values = dict(san_ip=ARRAY.address, pure_api_token=ARRAY.operator)
        values.update(more)
        for key, value in values.items():
            self.override_config(key, value, group=config.config_group)
        made.do_setup(None)
        made.check_for_setup_error()
        return made

    def type_of(self, qos=None, **extra):
        made = volume_types.create(self.context, uuid.uuid4().hex, extra)
        if qos:
            specs = qos_specs.create(self.context, uuid.uuid4().hex,
                                     dict(qos, consumer='back-end'))
            qos_specs.associate_qos_with_type(self.context, specs.id,
                                              made['id'])
        return objects.VolumeType.get_by_id(self.context, made['id'])

    def volume(self, **more):
        its = more.pop('type_', None) or self.type_of()
        more.setdefault('id', str(uuid.uuid4()))
        volume = fake_volume.fake_volume_obj(
            self.context, volume_type_id=its.id, metadata={},
            host='node@flash#flash', **more)
        volume.volume_type = its
        volume.volume_attachment = objects.VolumeAttachmentList(objects=[])
        return volume

    def new_volume(self, **more):
        volume = self.volume(**more)
        self.update(volume, self.driver.create_volume(volume))
        return volume

    def update(self, volume, its):
        volume.provider_id = its['provider_id']

    def new_snapshot(self, volume):
        made = fake_snapshot.fake_snapshot_obj(
            self.context, id=str(uuid.uuid4()), volume_id=volume.id,
            volume_size=volume.size, metadata={})
        made.volume = volume
        self.driver.create_snapshot(made)
        return made

    def work(self, volume, *commands):
        data = self.driver.initialize_connection(volume, NODE)['data']
        done = ARRAY.io(NODE['initiator'], data['target_luns'][0], *commands)
        self.driver.terminate_connection(volume, NODE)
        return done

    def seen(self, volume):
        return ARRAY.ask('GET',
                         'volumes/' + volume.provider_id.split('/')[-1])

    def left(self):
        return {kind: sorted(it['name']
                             for it in ARRAY.ask('GET', kind)['items'])
                for kind in ('volumes', 'snapshots', 'groups', 'hosts')}

    def test_volumes(self):
        before = self.left()
        volume = self.new_volume()
        self.assertEqual(units.Gi, self.seen(volume)['size'])
        self.assertEqual('Data',
                         self.seen(volume)['labels']['flash.tag/VolType'])
        self.driver.extend_volume(volume, 3)
        self.assertEqual(3 * units.Gi, self.seen(volume)['size'])
        self.assertRaises(pure.PureDriverException,
                          self.driver.extend_volume, volume, 1)
        self.assertRaises(pure.PureDriverException,
                          self.driver.create_volume, volume)
        self.driver.delete_volume(volume)
        self.driver.delete_volume(volume)
        self.assertEqual(before, self.left())
        self.assertIn(volume.provider_id, [
            it['name'] for it in ARRAY.ask('GET', 'recycle-bin')['items']])

    def test_eradication_is_only_what_is_configured(self):
        admin = self.make_driver(pure_api_token=ARRAY.token,
                                 pure_eradicate_on_delete=True)
        volume = self.new_volume()
        snapshot = self.new_snapshot(volume)
        admin.delete_snapshot(snapshot)
        admin.delete_volume(volume)
        gone = [it['name'] for it in ARRAY.ask('GET', 'recycle-bin')['items']]
        self.assertNotIn(volume.provider_id, gone)
        self.assertNotIn(f'{volume.provider_id}.{snapshot.name}', gone)

    def test_connections(self):
        before = self.left()
        volume, other = self.new_volume(), self.new_volume()
        first = self.driver.initialize_connection(volume, NODE)['data']
        self.assertEqual(
            first, self.driver.initialize_connection(volume, NODE)['data'])
        self.driver.initialize_connection(volume, SECOND)
        second = self.driver.initialize_connection(other, NODE)['data']
        self.assertEqual(ARRAY.ready['portals'], first['target_portals'])
        self.assertEqual([ARRAY.ready['target_iqn']] * 2,
                         first['target_iqns'])
        self.assertGreaterEqual(first['target_luns'][0], 1)
        self.assertNotEqual(first['target_luns'], second['target_luns'])
        for it in (SECOND, NODE):
            self.driver.terminate_connection(volume, it)
        self.driver.terminate_connection(volume, NODE)
        self.assertEqual(1, len(self.left()['hosts']))
        # A volume that is connected is disconnected first.
        self.driver.delete_volume(other)
        self.driver.delete_volume(volume)
        self.assertEqual(before, self.left())

    def test_chap(self):
        secure = self.make_driver(use_chap_auth=True)
        self.patch('cinder.volume.drivers.pure.PureISCSIDriver.'
                   '_get_chap_credentials',
                   return_value=('cloud', 'a secret of length'))
        node = dict(NODE, initiator='iqn.1993-08.org.debian:01:chap',
                    host='chap')
        volume = self.new_volume()
        data = secure.initialize_connection(volume, node)['data']
        self.assertEqual('CHAP', data['auth_method'])
        self.assertFalse(ARRAY.io(node['initiator'], data['target_luns'][0],
                                  'read 0 64k'))
        secure.terminate_connection(volume, node)
        self.driver.delete_volume(volume)

    def test_snapshots_and_what_is_made_of_them(self):
        before = self.left()
        volume = self.new_volume()
        self.assertTrue(self.work(volume, 'write -P 1 0 64k'))
        snapshot = self.new_snapshot(volume)
        self.assertTrue(self.work(volume, 'write -P 2 0 64k'))
        copy, clone = self.volume(size=2), self.volume(size=3)
        self.update(copy, self.driver.create_volume_from_snapshot(copy,
                                                                  snapshot))
        self.update(clone, self.driver.create_cloned_volume(clone, volume))
        self.assertTrue(self.work(copy, 'read -P 1 0 64k'))
        self.assertTrue(self.work(clone, 'read -P 2 0 64k'))
        self.assertEqual((2 * units.Gi, 3 * units.Gi),
                         (self.seen(copy)['size'], self.seen(clone)['size']))
        self.driver.revert_to_snapshot(self.context, volume, snapshot)
        self.assertTrue(self.work(volume, 'read -P 1 0 64k'))
        self.driver.delete_snapshot(snapshot)
        self.driver.delete_snapshot(snapshot)
        for it in (volume, copy, clone):
            self.driver.delete_volume(it)
        self.assertEqual(before, self.left())

    def test_limits(self):
        fast = self.type_of(qos={'maxIOPS': '5000', 'maxBWS': '100'})
        volume = self.new_volume(type_=fast)
        limits = self.seen(volume)['limits']
        self.assertEqual((5000, 100 * units.Mi),
                         (limits['iops'], limits['bandwidth']))
        self.driver.retype(self.context, volume,
                           {'id': self.type_of().id}, None, None)
        limits = self.seen(volume)['limits']
        self.assertEqual((None, None), (limits['iops'], limits['bandwidth']))
        self.driver.retype(self.context, volume, {'id': fast.id}, None, None)
        self.assertEqual(5000, self.seen(volume)['limits']['iops'])
        self.driver.delete_volume(volume)

    def test_volume_groups(self):
        before = self.left()
        its = self.type_of(**{'flasharray:vg_name': 'gold',
                              'flasharray:vg_maxIOPS': '7000'})
        volume = self.new_volume(type_=its)
        self.assertEqual(f'gold/{volume.name}-cinder', volume.provider_id)
        self.assertEqual('gold', self.seen(volume)['group'])
        self.assertEqual(7000, ARRAY.ask('GET', 'groups/gold')['limits'][
            'iops'])
        self.assertTrue(self.work(volume, 'write -P 1 0 64k'))
        snapshot = self.new_snapshot(volume)
        copy = self.volume(type_=its)
        self.update(copy, self.driver.create_volume_from_snapshot(copy,
                                                                  snapshot))
        self.assertTrue(self.work(copy, 'read -P 1 0 64k'))
        _done, update = self.driver.retype(
            self.context, copy, {'id': self.type_of().id}, None, None)
        self.update(copy, update)
        self.assertIsNone(self.seen(copy)['group'])
        self.driver.delete_snapshot(snapshot)
        self.driver.delete_volume(copy)
        self.driver.delete_volume(volume)
        self.assertEqual(before, self.left())

    def group(self):
        made = fake_group.fake_group_obj(self.context, id=str(uuid.uuid4()))
        made.volume_types = objects.VolumeTypeList(objects=[])
        return made

    def test_consistent_groups(self):
        self.patch('cinder.volume.volume_utils.is_group_a_cg_snapshot_type',
                   return_value=True)
        self.patch('cinder.volume.volume_utils.is_group_a_type',
                   return_value=False)
        before = self.left()
        group = self.group()
        group.volume_type_ids = []
        self.driver.create_group(self.context, group)
        gold = self.type_of(**{'flasharray:vg_name': 'gold'})
        volumes = [self.new_volume(), self.new_volume(type_=gold)]
        other = self.new_volume()
        self.driver.update_group(self.context, group, volumes + [other], [])
        self.driver.update_group(self.context, group, [], [other])
        for number, it in enumerate(volumes, 1):
            self.assertTrue(self.work(it, f'write -P {number} 0 64k'))
        taken = fake_group_snapshot.fake_group_snapshot_obj(
            self.context, id=str(uuid.uuid4()), group_id=group.id)
        taken.group = group
        self.driver.create_group_snapshot(self.context, taken, [])
        parts = ARRAY.ask('GET', 'snapshots?label=flash.set')['items']
        self.assertEqual(2, len(parts))
        self.assertEqual(1, len({it['set'] for it in parts}))
        set_ = self.driver._get_pgroup_snap_name(taken)
        listed = self.driver.get_manageable_snapshots(
            [], None, 1000, 0, ['size'], ['asc'])
        self.assertEqual({f'{set_}.{it.provider_id}' for it in volumes},
                         {it['reference']['name'] for it in listed
                          if it['safe_to_manage']
                          and it['reference']['name'].startswith(set_)})
        for it in volumes:
            self.assertTrue(self.work(it, 'write -P 9 0 64k'))

        copies = [self.volume(group_id=None) for _ in volumes]
        snapshots = []
        for it in volumes:
            made = fake_snapshot.fake_snapshot_obj(
                self.context, id=str(uuid.uuid4()), volume_id=it.id,
                volume_size=1, metadata={})
            made.volume, made.group_snapshot = it, taken
            made.cgsnapshot = None
            snapshots.append(made)
        second = self.group()
        second.volume_type_ids = []
        _model, updates = self.driver.create_group_from_src(
            self.context, second, copies, group_snapshot=taken,
            snapshots=snapshots)
        for number, (it, its) in enumerate(zip(copies, updates), 1):
            self.update(it, its)
            self.assertTrue(self.work(it, f'read -P {number} 0 64k'))
        self.driver.delete_group_snapshot(self.context, taken, snapshots)
        self.driver.delete_group_snapshot(self.context, taken, snapshots)
        self.assertEqual(before['snapshots'], self.left()['snapshots'])
        self.driver.delete_group(self.context, second, copies)
        self.driver.delete_group(self.context, group, volumes)
        self.driver.delete_group(self.context, group, volumes)
        self.driver.delete_volume(other)
        self.assertEqual(before, self.left())

    def test_manage(self):
        ARRAY.ask('POST', 'volumes', {'name': 'old', 'size': 3 * units.Mi})
        ARRAY.ask('POST', 'snapshots', {'volume': 'old', 'suffix': 'then'})
        reference, volume = {'source-name': 'old'}, self.volume()
        self.assertEqual(
            1, self.driver.manage_existing_get_size(volume, reference))
        listed = self.driver.get_manageable_volumes(
            [], None, 1000, 0, ['size'], ['asc'])
        self.assertIn({'name': 'old'}, [it['reference'] for it in listed
                                        if it['safe_to_manage']])
        self.update(volume, self.driver.manage_existing(volume, reference))
        self.assertEqual(f'{volume.name}-cinder', self.seen(volume)['name'])
        snapshot = self.new_snapshot(volume)
        listed = self.driver.get_manageable_snapshots(
            [snapshot], None, 1000, 0, ['size'], ['asc'])
        self.assertIn((False, snapshot.id), [
            (it['safe_to_manage'], it['cinder_id']) for it in listed])
        self.driver.unmanage_snapshot(snapshot)
        self.driver.unmanage(volume)
        volume.provider_id += '-unmanaged'
        self.assertEqual({}, self.seen(volume)['labels'])
        self.assertRaises(
            exception.ManageExistingInvalidReference,
            self.driver.manage_existing, self.volume(),
            {'source-name': 'nothing'})

    def test_figures(self):
        self.driver.get_volume_stats(refresh=True)
        before = dict(self.driver._stats)
        self.new_volume(size=5)
        self.driver.get_volume_stats(refresh=True)
        after = self.driver._stats
        self.assertEqual(5, after['provisioned_capacity_gb']
                         - before['provisioned_capacity_gb'])
        self.assertEqual(1, after['total_volumes'] - before['total_volumes'])
        self.assertGreater(after['total_capacity_gb'], 1)

    def test_credentials(self):
        self.assertRaises(
            Exception, flasharray.Client, target=ARRAY.address,
            api_token='ashlar-wrong', verify_ssl=False)
        self.assertIsNone(self.driver._get_flasharray(ARRAY.address,
                                                      'wrong'))

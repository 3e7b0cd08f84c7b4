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
"""The driver against a live array: every operation, and what goes wrong."""

import json
import os
import socket
import threading
from unittest import mock
import uuid
import wsgiref.simple_server

from cinder import context
from cinder import exception
from cinder.objects import fields
from cinder.tests.unit import fake_group
from cinder.tests.unit import fake_group_snapshot
from cinder.tests.unit import fake_snapshot
from cinder.tests.unit import fake_volume
from cinder.tests.unit import test
from cinder.volume import configuration
from cinder.volume import qos_specs
from oslo_utils import units

from ashlar_cinder import client
from ashlar_cinder import driver
from tests import rig

ARRAY = None
NODE = {'initiator': 'iqn.1993-08.org.debian:01:one', 'host': 'compute-1'}
OTHER = {'initiator': 'iqn.1993-08.org.debian:01:two', 'host': 'compute-2'}


def setUpModule():
    global ARRAY
    ARRAY = rig.RunningArray()


def tearDownModule():
    ARRAY.stop()


class LiveTest(test.TestCase):

    def setUp(self):
        super().setUp()
        self.context = context.get_admin_context()
        self.driver = self.make_driver()

    def make_driver(self, **more):
        config = configuration.Configuration(
            driver.OPTIONS, config_group='ashlar-' + uuid.uuid4().hex)
        made = driver.ISCSIDriver(configuration=config,
                                  host='node@ashlar#ashlar')
        values = dict(san_ip='127.0.0.1', san_api_port=ARRAY.port,
                      driver_ssl_cert_verify=True,
                      driver_ssl_cert_path=ARRAY.certificate,
                      ashlar_api_token=ARRAY.token)
        values.update(more)
        for key, value in values.items():
            self.override_config(key, value, group=config.config_group)
        made.do_setup(None)
        made.check_for_setup_error()
        return made

    def volume(self, **fields_):
        fields_.setdefault('id', str(uuid.uuid4()))
        fields_.setdefault('host', 'node@ashlar#ashlar')
        return fake_volume.fake_volume_obj(self.context, **fields_)

    def new_volume(self, **fields_):
        volume = self.volume(**fields_)
        volume.update(self.driver.create_volume(volume))
        return volume

    def new_snapshot(self, volume):
        snapshot = self.snapshot(volume)
        snapshot.update(self.driver.create_snapshot(snapshot))
        return snapshot

    def snapshot(self, volume, **fields_):
        made = fake_snapshot.fake_snapshot_obj(
            self.context, id=str(uuid.uuid4()), volume_id=volume.id,
            volume_size=volume.size, **fields_)
        made.volume = volume
        return made

    def type_of(self, qos=None, **extra):
        volume_type = fake_volume.fake_volume_type_obj(
            self.context, id=str(uuid.uuid4()), extra_specs=extra)
        if qos:
            made = qos_specs.create(self.context, str(uuid.uuid4()),
                                    dict(qos, consumer='back-end'))
            volume_type.qos_specs_id = made.id
        return volume_type

    def seen(self, volume):
        return ARRAY.ask('GET', f'volumes/{volume.provider_id}')

    def attach(self, volume, connector=None):
        answer = self.driver.initialize_connection(volume, connector or NODE)
        return answer['data']['target_lun']

    def detach(self, volume, connector=None):
        self.driver.terminate_connection(volume, connector or NODE)

    def work(self, volume, *commands):
        lun = self.attach(volume)
        done = ARRAY.io(NODE['initiator'], lun, *commands)
        self.detach(volume)
        return done


class ClientTest(test.TestCase):

    def test_what_the_client_names_is_in_the_api(self):
        path = os.environ['ASHLAR_OPENAPI']
        with open(path) as file:
            schemas = json.load(file)['components']['schemas']
        for kind in ('Volume', 'Snapshot', 'Host', 'Connection',
                     'Attachment'):
            wanted = getattr(client, kind).__annotations__
            known = self.properties(schemas, schemas[kind])
            self.assertEqual(set(), set(wanted) - known, kind)

    def properties(self, schemas, schema):
        known = set(schema.get('properties', {}))
        for part in schema.get('allOf', []):
            if '$ref' in part:
                part = schemas[part['$ref'].rsplit('/', 1)[1]]
            known |= self.properties(schemas, part)
        return known


class VolumeTest(LiveTest):

    def test_the_life_of_a_volume(self):
        volume = self.new_volume(size=2)
        seen = self.seen(volume)
        self.assertEqual(2 * units.Gi, seen['size'])
        self.assertEqual(volume.name, seen['name'])
        self.assertEqual(volume.id, seen['labels']['cinder.volume'])
        self.driver.extend_volume(volume, 3)
        self.driver.extend_volume(volume, 3)
        self.assertEqual(3 * units.Gi, self.seen(volume)['size'])
        self.driver.delete_volume(volume)
        binned = ARRAY.ask('GET', 'recycle-bin')['items']
        self.assertIn(volume.provider_id, [it['id'] for it in binned])
        # Deleted once more: nothing to do.
        self.driver.delete_volume(volume)

    def test_creation_that_is_repeated_makes_one_volume(self):
        volume = self.volume()
        first = self.driver.create_volume(volume)
        self.assertEqual(first, self.driver.create_volume(volume))
        # Interrupted before Cinder had the id.
        self.assertEqual(
            ([{'id': volume.id, 'provider_id': first['provider_id']}], []),
            self.driver.update_provider_info([volume], []))
        self.driver.delete_volume(volume)
        self.assertIsNone(self.driver.array.find_volume(volume.name))

    def test_a_name_that_is_taken_is_named(self):
        volume = self.volume(size=1)
        ARRAY.ask('POST', 'volumes', {'name': volume.name,
                                      'size': 5 * units.Gi})
        error = self.assertRaises(client.ArrayError,
                                  self.driver.create_volume, volume)
        self.assertEqual('differs', error.kind)
        self.assertIn(volume.name, str(error))

    def test_renamed_on_the_array_it_is_still_found(self):
        volume = self.new_volume()
        ARRAY.ask('PATCH', f'volumes/{volume.provider_id}',
                  {'name': 'renamed-' + uuid.uuid4().hex[:8]})
        self.driver.extend_volume(volume, 2)
        self.assertEqual(2 * units.Gi, self.seen(volume)['size'])

    def test_long_names_are_hashed(self):
        self.override_config('volume_name_template', 'x' * 60 + '-%s')
        volume = self.new_volume()
        seen = self.seen(volume)
        self.assertRegex(seen['name'], '^cinder-[a-z2-7]{26}$')
        self.assertEqual(volume.name, seen['labels']['name'])

    def test_clones(self):
        source = self.new_volume(size=1)
        self.assertTrue(self.work(source, 'write -P 7 0 1M'))
        clone = self.volume(size=2)
        clone.update(self.driver.create_cloned_volume(clone, source))
        self.assertEqual(2 * units.Gi, self.seen(clone)['size'])
        self.assertTrue(self.work(clone, 'read -P 7 0 1M',
                                  'write -P 8 0 1M'))
        self.assertTrue(self.work(source, 'read -P 7 0 1M'))
        # Repeated after the clone had grown.
        again = self.driver.create_cloned_volume(clone, source)
        self.assertEqual(clone.provider_id, again['provider_id'])

    def test_snapshots_and_revert(self):
        volume = self.new_volume(size=1)
        self.assertTrue(self.work(volume, 'write -P 1 0 1M'))
        snapshot = self.new_snapshot(volume)
        self.assertEqual({'provider_id': snapshot.provider_id},
                         self.driver.create_snapshot(snapshot))
        self.assertTrue(self.work(volume, 'write -P 2 0 1M'))
        copy = self.volume(size=1)
        copy.update(self.driver.create_volume_from_snapshot(copy, snapshot))
        self.assertTrue(self.work(copy, 'read -P 1 0 1M'))
        self.driver.extend_volume(volume, 2)
        self.driver.revert_to_snapshot(self.context, volume, snapshot)
        self.assertTrue(self.work(volume, 'read -P 1 0 1M'))
        self.assertEqual(2 * units.Gi, self.seen(volume)['size'])
        self.driver.delete_snapshot(snapshot)
        self.driver.delete_snapshot(snapshot)
        self.assertTrue(self.work(copy, 'read -P 1 0 1M'))

    def test_a_volume_that_is_gone_is_named(self):
        volume = self.new_volume()
        ARRAY.ask('DELETE', f'volumes/{volume.provider_id}')
        error = self.assertRaises(client.ArrayError,
                                  self.driver.extend_volume, volume, 2)
        self.assertEqual('not_found', error.kind)
        self.driver.terminate_connection(volume, NODE)


class TypeTest(LiveTest):

    def limits(self, volume):
        limits = self.seen(volume)['limits']
        return limits['iops'], limits['bandwidth']

    def test_qos_by_specs_and_by_size(self):
        volume_type = self.type_of(qos={'maxIOPS': '5000',
                                        'maxBWS_per_GB': '10'})
        volume = self.volume(size=2)
        volume.volume_type = volume_type
        volume.update(self.driver.create_volume(volume))
        self.assertEqual((5000, 20 * units.Mi), self.limits(volume))
        self.driver.extend_volume(volume, 4)
        self.assertEqual((5000, 40 * units.Mi), self.limits(volume))

    def test_retype_is_in_place(self):
        volume = self.new_volume()
        new = self.type_of(**{'qos:maxIOPS': '700',
                              'ashlar:compression': 'high',
                              'ashlar:dedup': '<is> False'})
        here = {'host': volume.host}
        self.assertEqual((True, None), self.driver.retype(
            self.context, volume, new, {}, here))
        seen = self.seen(volume)
        self.assertEqual(700, seen['limits']['iops'])
        self.assertEqual('high', seen['policy']['compression'])
        self.assertIs(False, seen['policy']['dedup'])
        self.assertEqual((True, None), self.driver.retype(
            self.context, volume, self.type_of(), {}, here))
        seen = self.seen(volume)
        self.assertIsNone(seen['limits']['iops'])
        self.assertIsNone(seen['policy']['compression'])
        self.assertEqual((False, None), self.driver.retype(
            self.context, volume, new, {}, {'host': 'node@other#pool'}))

    def test_a_type_that_makes_no_sense_makes_no_volume(self):
        for extra in ({'ashlar:compression': 'much'}, {'maxIOPS': 'many'}):
            volume = self.volume()
            volume.volume_type = self.type_of(**extra)
            self.assertRaises(exception.InvalidVolumeType,
                              self.driver.create_volume, volume)
            self.assertIsNone(self.driver.array.find_volume(volume.name))

    def test_volume_group_and_migration_on_the_same_array(self):
        for name in ('gold', 'silver'):
            ARRAY.ask('POST', 'groups', {'name': name})
        gold = self.make_driver(ashlar_volume_group='gold')
        silver = self.make_driver(ashlar_volume_group='silver')
        volume = self.volume()
        volume.update(gold.create_volume(volume))
        self.assertEqual('gold', self.seen(volume)['group'])
        silver._update_volume_stats()
        host = {'host': 'node@silver#silver', 'capabilities': silver._stats}
        self.assertEqual((True, None),
                         gold.migrate_volume(self.context, volume, host))
        self.assertEqual('silver', self.seen(volume)['group'])
        elsewhere = {'location_info': 'ashlar:0123456789abcdef:'}
        self.assertEqual((False, None), gold.migrate_volume(
            self.context, volume, {'capabilities': elsewhere}))
        self.assertRaises(exception.InvalidInput, self.make_driver,
                          ashlar_volume_group='no-such-group')

    def test_after_a_copy_the_label_follows(self):
        old, new = self.new_volume(), self.new_volume()
        update = self.driver.update_migrated_volume(
            self.context, old, new, 'available')
        self.assertEqual(new.name_id, update['_name_id'])
        self.assertEqual(old.id, self.seen(new)['labels']['cinder.volume'])


class ConnectionTest(LiveTest):

    def test_connection_data(self):
        volume = self.new_volume()
        data = self.driver.initialize_connection(volume, NODE)['data']
        self.assertGreaterEqual(data['target_lun'], 1)
        self.assertEqual(set(ARRAY.ready['portals']),
                         set(data['target_portals']))
        self.assertEqual([ARRAY.ready['target_iqn']] * 2,
                         data['target_iqns'])
        self.assertEqual([data['target_lun']] * 2, data['target_luns'])
        self.assertNotIn('auth_password', data)
        self.assertTrue(ARRAY.io(NODE['initiator'], data['target_lun'],
                                 'write -P 1 0 64k'))
        again = self.driver.initialize_connection(volume, NODE)['data']
        self.assertEqual(data, again)
        self.assertRaises(exception.VolumeIsBusy, self.driver.delete_volume,
                          volume)
        self.detach(volume)
        self.detach(volume)
        self.assertFalse(ARRAY.io(NODE['initiator'], data['target_lun'],
                                  'read 0 64k'))
        self.driver.delete_volume(volume)

    def test_several_nodes_and_all_at_once(self):
        volume = self.new_volume(multiattach=True)
        self.attach(volume)
        self.attach(volume, OTHER)
        self.assertEqual(2, len(self.seen(volume)['connections']))
        self.detach(volume)
        self.assertEqual(1, len(self.seen(volume)['connections']))
        self.attach(volume)
        self.driver.terminate_connection(volume, None)
        self.assertEqual([], self.seen(volume)['connections'])

    def test_two_instances_of_one_node(self):
        volume = self.new_volume(multiattach=True)
        self.attach(volume)
        attached = mock.Mock(
            attach_status=fields.VolumeAttachStatus.ATTACHED,
            attached_host=NODE['host'])
        with mock.patch.object(type(volume), 'volume_attachment',
                               [attached, attached]):
            self.detach(volume)
        self.assertEqual(1, len(self.seen(volume)['connections']))
        with mock.patch.object(type(volume), 'volume_attachment',
                               [attached]):
            self.detach(volume)
        self.assertEqual([], self.seen(volume)['connections'])

    def test_what_an_administrator_made_is_used(self):
        initiator = 'iqn.1993-08.org.debian:01:by-hand'
        node = {'initiator': initiator.upper().replace('IQN', 'iqn'),
                'host': 'hand'}
        ARRAY.ask('POST', 'hosts', {'name': 'by-hand',
                                    'initiators': [initiator]})
        volume, second = self.new_volume(), self.new_volume()
        ARRAY.ask('POST', 'connections', {
            'volume': volume.provider_id, 'host': 'by-hand', 'lun': 0})
        self.assertEqual(0, self.attach(volume, node))
        ARRAY.ask('POST', 'host-groups', {'name': 'rack',
                                          'hosts': ['by-hand']})
        ARRAY.ask('POST', 'connections', {
            'volume': second.provider_id, 'host_group': 'rack', 'lun': 300})
        data = self.driver.initialize_connection(second, node)['data']
        self.assertEqual(300, data['target_lun'])
        self.assertEqual('SAM2', data['addressing_mode'])
        self.detach(second, node)
        self.assertEqual(1, len(self.seen(second)['connections']))

    def test_a_node_with_a_new_initiator(self):
        volume = self.new_volume()
        old = {'initiator': 'iqn.1993-08.org.debian:01:old', 'host': 'again'}
        new = {'initiator': 'iqn.1993-08.org.debian:01:new', 'host': 'again'}
        self.attach(volume, old)
        self.attach(volume, new)
        hosts = {it['host'] for it in self.seen(volume)['connections']}
        self.assertEqual(2, len(hosts))
        self.assertIn('cinder-again', hosts)

    def test_chap(self):
        secure = self.make_driver(use_chap_auth=True, chap_username='cloud',
                                  chap_password='a secret of length')
        node = {'initiator': 'iqn.1993-08.org.debian:01:chap', 'host': 'chap'}
        volume = self.new_volume()
        data = secure.initialize_connection(volume, node)['data']
        self.assertEqual(('CHAP', 'cloud', 'a secret of length'),
                         (data['auth_method'], data['auth_username'],
                          data['auth_password']))
        self.assertFalse(ARRAY.io(node['initiator'], data['target_lun'],
                                  'read 0 64k'))
        error = self.assertRaises(
            exception.VolumeDriverException,
            self.driver.initialize_connection, volume, node)
        self.assertIn('use_chap_auth', str(error))
        self.assertRaises(exception.InvalidInput, self.make_driver,
                          use_chap_auth=True, chap_username='',
                          chap_password='')

    def test_a_connector_without_initiator(self):
        self.assertRaises(exception.InvalidConnectorException,
                          self.driver.initialize_connection,
                          self.new_volume(), {'host': 'x'})


class GroupTest(LiveTest):

    def setUp(self):
        super().setUp()
        self.consistent = self.patch(
            'cinder.volume.volume_utils.is_group_a_cg_snapshot_type',
            return_value=True)
        self.group = fake_group.fake_group_obj(self.context,
                                               id=str(uuid.uuid4()))

    def test_other_groups_are_left_to_cinder(self):
        self.consistent.return_value = False
        self.assertRaises(NotImplementedError, self.driver.create_group,
                          self.context, self.group)

    def test_snapshots_of_one_moment_and_a_group_of_them(self):
        volumes = [self.new_volume() for _ in range(3)]
        self.assertEqual('available', self.driver.create_group(
            self.context, self.group)['status'])
        for number, volume in enumerate(volumes, 1):
            self.assertTrue(self.work(volume, f'write -P {number} 0 64k'))
        taken = fake_group_snapshot.fake_group_snapshot_obj(
            self.context, id=str(uuid.uuid4()))
        snapshots = [self.snapshot(it) for it in volumes]
        update, updates = self.driver.create_group_snapshot(
            self.context, taken, snapshots)
        self.assertEqual('available', update['status'])
        for snapshot, its in zip(snapshots, updates):
            self.assertEqual(snapshot.id, its['id'])
            snapshot.provider_id = its['provider_id']
        sets = {ARRAY.ask('GET', f'snapshots/{it.provider_id}')['set']
                for it in snapshots}
        self.assertEqual(1, len(sets))

        copies = [self.volume() for _ in volumes]
        _group, made = self.driver.create_group_from_src(
            self.context, self.group, copies, group_snapshot=taken,
            snapshots=snapshots)
        for number, (copy, its) in enumerate(zip(copies, made), 1):
            copy.provider_id = its['provider_id']
            self.assertTrue(self.work(copy, f'read -P {number} 0 64k'))

        update, updates = self.driver.delete_group_snapshot(
            self.context, taken, snapshots)
        self.assertEqual('deleted', update['status'])
        self.assertEqual(3, len(updates))
        for it in snapshots:
            self.assertIsNone(self.driver.array.find_snapshot(it.provider_id))

    def test_a_group_of_a_group(self):
        volumes = [self.new_volume() for _ in range(2)]
        for number, volume in enumerate(volumes, 1):
            self.assertTrue(self.work(volume, f'write -P {number} 0 64k'))
        copies = [self.volume(size=2) for _ in volumes]
        before = len(self.driver.array.snapshots())
        _group, made = self.driver.create_group_from_src(
            self.context, self.group, copies, source_group=self.group,
            source_vols=volumes)
        for number, (copy, its) in enumerate(zip(copies, made), 1):
            copy.provider_id = its['provider_id']
            self.assertTrue(self.work(copy, f'read -P {number} 0 64k'))
            self.assertEqual(2 * units.Gi, self.seen(copy)['size'])
        self.assertEqual(before, len(self.driver.array.snapshots()))

        self.attach(copies[0])
        update, updates = self.driver.delete_group(self.context, self.group,
                                                   copies)
        self.assertEqual('error_deleting', update['status'])
        self.assertEqual(['error_deleting', 'deleted'],
                         [it['status'] for it in updates])
        self.detach(copies[0])
        update, _updates = self.driver.delete_group(self.context, self.group,
                                                    copies)
        self.assertEqual('deleted', update['status'])


class ManageTest(LiveTest):

    def existing(self, size=units.Gi + units.Mi):
        name = 'old-' + uuid.uuid4().hex[:8]
        return ARRAY.ask('POST', 'volumes', {'name': name, 'size': size})

    def test_manage_and_unmanage(self):
        existing = self.existing()
        reference = {'source-name': existing['name']}
        volume = self.volume(size=2)
        self.assertEqual(2, self.driver.manage_existing_get_size(
            volume, reference))
        volume.volume_type = self.type_of(maxIOPS='900')
        volume.update(self.driver.manage_existing(volume, reference))
        self.assertEqual(existing['id'], volume.provider_id)
        seen = self.seen(volume)
        self.assertEqual((volume.name, 2 * units.Gi, 900),
                         (seen['name'], seen['size'],
                          seen['limits']['iops']))
        other = self.volume(size=2)
        self.assertRaises(exception.ManageExistingInvalidReference,
                          self.driver.manage_existing, other,
                          {'source-id': existing['id']})
        self.driver.unmanage(volume)
        seen = self.seen(volume)
        self.assertEqual(volume.name + '-unmanaged', seen['name'])
        self.assertNotIn('cinder.volume', seen['labels'])

    def test_what_can_not_be_managed(self):
        for reference in ({}, {'source-name': 'no-such-volume'}):
            self.assertRaises(exception.ManageExistingInvalidReference,
                              self.driver.manage_existing_get_size,
                              self.volume(), reference)
        existing = self.existing()
        ARRAY.ask('POST', 'hosts', {
            'name': 'user', 'initiators': ['iqn.2026-01.test:user']})
        ARRAY.ask('POST', 'connections', {'volume': existing['name'],
                                          'host': 'user'})
        error = self.assertRaises(
            exception.ManageExistingInvalidReference,
            self.driver.manage_existing, self.volume(),
            {'source-name': existing['name']})
        self.assertIn('connected', str(error))

    def test_snapshots(self):
        volume, other = self.new_volume(), self.new_volume()
        taken = ARRAY.ask('POST', 'snapshots', {
            'volume': volume.provider_id, 'suffix': 'old'})['items'][0]
        reference = {'source-name': taken['name']}
        stranger = self.snapshot(other)
        self.assertRaises(exception.ManageExistingInvalidReference,
                          self.driver.manage_existing_snapshot, stranger,
                          reference)
        snapshot = self.snapshot(volume)
        self.assertEqual(1, self.driver.manage_existing_snapshot_get_size(
            snapshot, reference))
        snapshot.update(self.driver.manage_existing_snapshot(snapshot,
                                                             reference))
        self.assertEqual(taken['id'], snapshot.provider_id)
        again = self.snapshot(volume)
        self.assertRaises(exception.ManageExistingInvalidReference,
                          self.driver.manage_existing_snapshot, again,
                          {'source-id': taken['id']})
        self.driver.unmanage_snapshot(snapshot)
        seen = ARRAY.ask('GET', f'snapshots/{taken["id"]}')
        self.assertEqual(snapshot.name + '-unmanaged', seen['name'])
        self.assertEqual({}, seen['labels'])

    def test_lists(self):
        existing = self.existing()
        volume = self.new_volume()
        snapshot = self.new_snapshot(volume)
        entries = self.driver.get_manageable_volumes(
            [volume], None, 1000, 0, ['size'], ['asc'])
        by_name = {it['reference']['source-name']: it for it in entries}
        free, taken = by_name[existing['name']], by_name[volume.name]
        self.assertEqual((True, 2, None), (
            free['safe_to_manage'], free['size'], free['cinder_id']))
        self.assertEqual((False, volume.id), (taken['safe_to_manage'],
                                              taken['cinder_id']))
        entries = self.driver.get_manageable_snapshots(
            [snapshot], None, 1000, 0, ['size'], ['asc'])
        mine, = [it for it in entries if it['cinder_id'] == snapshot.id]
        self.assertFalse(mine['safe_to_manage'])
        self.assertEqual(volume.name,
                         mine['source_reference']['source-name'])


class ArrayTest(LiveTest):

    def test_figures(self):
        before = self.driver.get_volume_stats(refresh=True)
        for key in ('multiattach', 'QoS_support', 'online_extend_support',
                    'consistent_group_snapshot_enabled',
                    'thin_provisioning_support', 'sparse_copy_volume'):
            self.assertIs(True, before[key], key)
        self.assertEqual('iSCSI', before['storage_protocol'])
        self.assertGreater(before['total_capacity_gb'], 1)
        self.assertGreater(before['free_capacity_gb'], 0)
        self.new_volume(size=7)
        after = self.driver.get_volume_stats(refresh=True)
        self.assertEqual(7, round(after['provisioned_capacity_gb']
                                  - before['provisioned_capacity_gb']))
        self.assertEqual('up', after['backend_state'])
        auto = self.make_driver(max_over_subscription_ratio='auto')
        stats = auto.get_volume_stats(refresh=True)
        self.assertEqual('auto', stats['max_over_subscription_ratio'])

    def test_active_active(self):
        self.assertTrue(driver.ISCSIDriver.SUPPORTS_ACTIVE_ACTIVE)
        volume = self.volume()
        made, errors = [], []

        def create():
            try:
                its = self.make_driver()
                made.append(its.create_volume(volume)['provider_id'])
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=create) for _ in range(4)]
        for it in threads:
            it.start()
        for it in threads:
            it.join()
        self.assertEqual([], errors)
        self.assertEqual(1, len(set(made)))

    def test_configuration(self):
        for missing in ('san_ip', 'ashlar_api_token'):
            error = self.assertRaises(exception.InvalidInput,
                                      self.make_driver, **{missing: None})
            self.assertIn(missing, str(error))

    def test_a_token_that_was_revoked(self):
        name = 'cinder-' + uuid.uuid4().hex[:8]
        made = ARRAY.ask('POST', 'tokens', {'name': name,
                                            'role': 'operator'})
        mine = self.make_driver(ashlar_api_token=made['secret'])
        volume = self.volume()
        mine.create_volume(volume)
        ARRAY.ask('DELETE', f'tokens/{name}')
        error = self.assertRaises(client.ArrayError, mine.delete_volume,
                                  volume)
        self.assertEqual('unauthorized', error.kind)
        self.assertIn('ashlar_api_token', str(error))

    def test_a_certificate_that_nobody_trusts(self):
        error = self.assertRaises(client.ArrayError, self.make_driver,
                                  driver_ssl_cert_path=None)
        self.assertIn('driver_ssl_cert_path', str(error))

    def test_an_array_that_is_away(self):
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            port = free.getsockname()[1]
        with mock.patch.object(client, 'RETRY_PAUSE_SECONDS', 0):
            error = self.assertRaises(client.ArrayError, self.make_driver,
                                      san_api_port=port)
        self.assertEqual('unreachable', error.kind)
        self.assertIn('san_ip', str(error))

    def serve(self, status, content):
        """An HTTP server that gives these answers in turn."""
        answers = list(zip(status, content))

        def answer(environ, start):
            code, body = answers.pop(0) if len(answers) > 1 else answers[0]
            start(f'{code} X', [('Content-Type', 'application/json')])
            return [body.encode()]

        class Quiet(wsgiref.simple_server.WSGIRequestHandler):
            def log_message(self, *_args):
                pass

        server = wsgiref.simple_server.make_server(
            '127.0.0.1', 0, answer, handler_class=Quiet)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def end():
            server.shutdown()
            thread.join()
            server.server_close()

        self.addCleanup(end)
        return client.Client(f'http://127.0.0.1:{server.server_port}',
                             't', True, '1.0')

    STATUS = ('{"version": "9.8.7", "driver_api": {"min": %d, "max": %d}}')

    def test_an_array_of_another_version(self):
        other = self.serve([200], [self.STATUS % (2, 3)])
        error = self.assertRaises(client.ArrayError, other.volumes)
        self.assertEqual('version', error.kind)
        self.assertIn('9.8.7', str(error))
        self.assertIn('this driver is 1.0', str(error))

    def test_an_array_that_restarts_is_waited_for(self):
        with mock.patch.object(client, 'RETRY_PAUSE_SECONDS', 0):
            starting = self.serve(
                [503, 200, 503, 200],
                ['{}', self.STATUS % (1, 1), '{}', '{"items": []}'])
            self.assertEqual([], starting.volumes())

    def test_something_that_is_no_array(self):
        web = self.serve([200], ['<html>'])
        error = self.assertRaises(client.ArrayError, web.volumes)
        self.assertIn('is this the address of an array', str(error))

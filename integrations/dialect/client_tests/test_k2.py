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
"""krest and the Kaminario driver of Cinder, unmodified, against live arrays.

Only what a compute node would do is replaced: there is no iSCSI initiator in
a kernel here, so that QEMU's copies between LUNs.
"""

import subprocess
import uuid
import warnings

from cinder import context
from cinder import exception
from cinder import objects
from cinder.objects import fields
from cinder.tests.unit import fake_snapshot
from cinder.tests.unit import fake_volume
from cinder.tests.unit import test
from cinder.volume import configuration
from cinder.volume.drivers.kaminario import kaminario_common
from cinder.volume.drivers.kaminario import kaminario_fc
from cinder.volume.drivers.kaminario import kaminario_iscsi
import krest
from oslo_utils import units
import requests

from client_tests import rig

warnings.simplefilter('ignore')

ARRAY = OTHER = None
NODE = {'initiator': 'iqn.1993-08.org.debian:01:one', 'host': 'compute-1'}
SECOND = {'initiator': 'iqn.1993-08.org.debian:01:two', 'host': 'compute-2'}


def setUpModule():
    global ARRAY, OTHER
    ARRAY, OTHER = rig.pair()


def tearDownModule():
    for it in ARRAY, OTHER:
        it.stop()


def client(array, **more):
    more.setdefault('username', 'admin')
    more.setdefault('password', array.operator)
    return krest.EndPoint(array.address, ssl_validate=False, **more)


class KrestTest(test.TestCase):

    def setUp(self):
        super().setUp()
        self.client = client(ARRAY)

    def names(self, resource, **query):
        return [it.name for it in self.client.search(resource, **query)]

    def status(self, action, *args, **more):
        error = self.assertRaises(requests.exceptions.HTTPError, action,
                                  *args, **more)
        return error.response.status_code

    def group(self, name, **more):
        return self.client.new('volume_groups', name=name, quota=0,
                               is_dedup=True, **more).save()

    def test_credentials(self):
        for wrong in ('nothing', 'ashlar-' + 'x' * 43):
            self.assertEqual(401, self.status(client, ARRAY, password=wrong))
        with self.assertRaises(requests.exceptions.HTTPError) as caught:
            client(ARRAY, password='nothing')
        self.assertIn('ashlar token create', str(caught.exception))
        answer = requests.get(f'https://{ARRAY.address}/api/v2', verify=False)
        self.assertEqual(401, answer.status_code)
        self.assertNotIn('Server', answer.headers)

    def test_a_role_that_may_not(self):
        seer = ARRAY.ask('POST', 'tokens', {
            'name': 'seer-' + uuid.uuid4().hex[:8],
            'role': 'viewer'})['secret']
        mine = client(ARRAY, password=seer)
        self.assertEqual(0, mine.search('volumes', name='none').total)
        wanted = mine.new('volume_groups', name='g', quota=0, is_dedup=True)
        self.assertEqual(403, self.status(wanted.save))

    def test_what_is_not_there(self):
        self.assertEqual(404, self.status(self.client.get, 'volumes', 7))
        answer = requests.get(f'https://{ARRAY.address}/api/v2/nothing',
                              auth=('x', ARRAY.operator), verify=False)
        self.assertEqual(404, answer.status_code)
        self.assertIn('error_msg', answer.json())
        self.assertEqual(400, self.status(self.client.search, 'volumes',
                                          colour='red'))
        self.assertEqual(400, self.status(
            self.client.new('volumes', colour='red').save))

    def test_searches(self):
        made = [self.group(f'search-{at}') for at in range(5)]
        self.assertEqual(['search-3'], self.names('volume_groups',
                                                  name='search-3'))
        self.assertEqual(
            {'search-1', 'search-4'},
            set(self.names('volume_groups', name__in='search-1,search-4')))
        self.assertEqual(
            {'search-1', 'search-4'},
            set(self.names('volume_groups', name=['search-1', 'search-4'])))
        self.assertEqual(
            [f'search-{at}' for at in reversed(range(5))],
            self.names('volume_groups', name__contains='search-',
                       __sort='-name'))
        page = self.client.search('volume_groups', name__contains='search-',
                                  __sort='name', __limit=2)
        self.assertEqual((5, 2), (page.total, len(page.hits)))
        page.autofetch = True
        self.assertEqual([f'search-{at}' for at in range(5)],
                         [it.name for it in page])
        some = self.client.search('volume_groups', name='search-0',
                                  __fields=['name']).hits[0]
        self.assertFalse(hasattr(some, 'quota'))
        volume = self.client.new('volumes', name='search-v', size=units.Mi,
                                 volume_group=made[0]).save()
        self.assertEqual(['search-v'], self.names('volumes',
                                                  volume_group=made[0]))
        self.assertEqual([], self.names('volumes', volume_group=made[1]))
        self.assertEqual(['search-v'], self.names('volumes',
                                                  volume_group=made[:2]))
        self.assertEqual('search-0', volume.volume_group.name)
        self.assertEqual(['search-v'], self.names(
            'volumes', size__gte=units.Mi, name__contains='search'))
        self.assertEqual(400, self.status(made[0].delete))
        volume.delete()
        for it in made:
            it.delete()
        self.assertEqual([], self.names('volume_groups',
                                        name__contains='search-'))

    def test_several_at_once(self):
        bulk = self.client.new('volume_groups', bulk=True)
        for at in range(3):
            bulk.add(self.client.new('volume_groups', name=f'bulk-{at}',
                                     quota=0, is_dedup=True))
        self.assertEqual(3, bulk.post().total)
        found = self.client.search('volume_groups', name__contains='bulk-')
        self.assertEqual(3, found.total)
        again = self.client.new('volume_groups', bulk=True)
        again.add(found)
        again.delete()
        self.assertEqual(0, self.client.search(
            'volume_groups', name__contains='bulk-').total)

    def test_a_name_that_the_array_refuses(self):
        name = '_a name/with everything ' + 'x' * 60
        group = self.group(name)
        volume = self.client.new('volumes', name=name, size=units.Mi,
                                 volume_group=group).save()
        self.assertEqual([name], self.names('volumes', name=name))
        stored, = ARRAY.ask(
            'GET', 'volumes?label=dialect.name')['items']
        self.assertEqual(name, stored['labels']['dialect.name'])
        volume.name = 'plain'
        volume.save()
        stored = ARRAY.ask('GET', 'volumes/plain')
        self.assertEqual({}, stored['labels'])
        volume.delete()
        group.delete()
        bin_ = ARRAY.ask('GET', 'recycle-bin')['items']
        self.assertIn('plain', [it['name'] for it in bin_])

    def test_creations_that_are_repeated(self):
        first, again = self.group('twice'), self.group('twice')
        self.assertEqual(first.id, again.id)
        volumes = [self.client.new('volumes', name='twice', size=units.Mi,
                                   volume_group=first).save()
                   for _ in range(2)]
        self.assertEqual(volumes[0].id, volumes[1].id)
        self.assertEqual(409, self.status(
            self.client.new('volumes', name='twice', size=2 * units.Mi,
                            volume_group=first).save))
        policy = self.client.search('retention_policies').hits[0]
        snapshots = [self.client.new('snapshots', short_name='now',
                                     source=first, retention_policy=policy,
                                     is_auto_deleteable=False).save()
                     for _ in range(2)]
        self.assertEqual(snapshots[0].id, snapshots[1].id)
        snapshots[0].delete()
        volumes[0].delete()
        first.delete()

    def test_hosts(self):
        host = self.client.new('hosts', name='_strange', type='Linux').save()
        self.assertEqual(400, self.status(self.client.new(
            'mappings', volume=self.client.get('volumes', 1),
            host=host).save))
        for iqn in ('iqn.2026-01.test:a', 'iqn.2026-01.test:B'):
            self.client.new('host_iqns', iqn=iqn, host=host).save()
        port = self.client.new('host_fc_ports', host=host,
                               pwwn='21:00:00:24:FF:00:00:01').save()
        found = self.client.search('hosts', name='_strange').hits[0]
        self.assertEqual((host.id, 'Linux'), (found.id, found.type))
        self.assertEqual(2, self.client.search('host_iqns', host=host).total)
        self.assertEqual(1, self.client.search(
            'host_fc_ports', pwwn='21:00:00:24:FF:00:00:01',
            host=host).total)
        port.delete()
        self.client.search('host_iqns', iqn='IQN.2026-01.test:b',
                           host=host).hits[0].delete()
        stored, = ARRAY.ask('GET', 'hosts?label=dialect.name')['items']
        self.assertEqual((['iqn.2026-01.test:a'], []),
                         (stored['initiators'], stored['wwpns']))
        host.delete()
        self.assertEqual(0, self.client.search('hosts',
                                               name='_strange').total)


class DriverCase(test.TestCase):

    DRIVER = kaminario_iscsi.KaminarioISCSIDriver

    def setUp(self):
        super().setUp()
        self.context = context.get_admin_context()
        self.patch('cinder.volume.volume_utils.'
                   'brick_get_connector_properties', return_value=NODE)
        self.patch('cinder.volume.volume_utils.copy_volume', self.copy)
        self.driver = self.make_driver()

    def make_driver(self, **more):
        config = configuration.Configuration(
            kaminario_common.kaminario_opts,
            config_group='old-' + uuid.uuid4().hex)
        made = self.DRIVER(configuration=config, host='node@old#old')
        values = dict(san_ip=ARRAY.address, san_login='admin',
                      san_password=ARRAY.operator)
        values.update(more)
        for key, value in values.items():
            self.override_config(key, value, group=config.config_group)
        made.do_setup(None)
        made.check_for_setup_error()
        made._connect_device = self.connect
        return made

    def connect(self, connection):
        """In place of a node's: QEMU reaches the LUN by itself."""
        lun = connection['data']['target_lun']
        image = (f'driver=iscsi,transport=tcp,portal={self.portal()},'
                 f'target={connection["data"]["target_iqn"]},lun={lun},'
                 f'initiator-name={NODE["initiator"]}')
        return {'conn': connection, 'device': {'path': image},
                'connector': None}

    def portal(self):
        return ARRAY.ready['portals'][0]

    def copy(self, source, target, megabytes, *_args, **_more):
        subprocess.run(['qemu-img', 'convert', '-n', '--image-opts',
                        '--target-image-opts', source, target], check=True)

    def type_of(self, **extra):
        return fake_volume.fake_volume_type_obj(
            self.context, id=str(uuid.uuid4()), extra_specs={
                key.replace('_', ':', 1): value
                for key, value in extra.items()})

    def volume(self, **more):
        its = more.pop('type_', None) or self.type_of()
        more.setdefault('id', str(uuid.uuid4()))
        more.setdefault('size', 1)
        volume = fake_volume.fake_volume_obj(
            self.context, volume_type_id=its.id, **more)
        volume.volume_type = its
        return volume

    def new_volume(self, **more):
        volume = self.volume(**more)
        self.driver.create_volume(volume)
        return volume

    def snapshot(self, volume):
        made = fake_snapshot.fake_snapshot_obj(
            self.context, id=str(uuid.uuid4()), volume_id=volume.id,
            volume_size=volume.size)
        made.volume = volume
        return made

    def new_snapshot(self, volume):
        snapshot = self.snapshot(volume)
        self.driver.create_snapshot(snapshot)
        return snapshot

    def work(self, volume, *commands, array=None):
        answer = self.driver.initialize_connection(volume, NODE)
        done = (array or ARRAY).io(NODE['initiator'],
                                   answer['data']['target_lun'], *commands)
        self.driver.terminate_connection(volume, NODE)
        return done

    def seen(self, name, array=None):
        return (array or ARRAY).ask('GET', f'volumes/{name}')

    def left(self, array=None):
        """What is on the array."""
        array = array or ARRAY
        return {kind: sorted(it['name']
                             for it in array.ask('GET', kind)['items'])
                for kind in ('volumes', 'snapshots', 'groups', 'hosts',
                             'replications')}


class FibreChannelTest(DriverCase):
    """The driver for Fibre Channel, with an array that has no adapter."""

    DRIVER = kaminario_fc.KaminarioFCDriver
    NODES = [{'host': f'fc-{it}', 'wwpns': [
        f'2100000e1e0000{it}1', f'2100000e1e0000{it}2']} for it in (1, 2)]

    def test_hosts_and_connections(self):
        before = self.left()
        volume, other = self.new_volume(), self.new_volume()
        first, second = self.NODES
        self.assertRaises(
            kaminario_common.KaminarioCinderDriverException,
            self.driver.initialize_connection, volume, first)
        # In place of an adapter; nothing else of the driver is changed.
        self.driver.get_target_info = lambda _volume: ['5000000000000001']
        luns = [self.driver.initialize_connection(volume, it)['data']
                for it in (first, first, second)]
        self.assertEqual(luns[0], luns[1])
        self.assertGreaterEqual(luns[0]['target_lun'], 1)
        self.assertEqual(
            {it: ['5000000000000001'] for it in first['wwpns']},
            luns[0]['initiator_target_map'])
        another = self.driver.initialize_connection(other, first)['data']
        self.assertNotEqual(luns[0]['target_lun'], another['target_lun'])
        for it in ARRAY.ask('GET', f'volumes/cv-{volume.id}')['connections']:
            host = ARRAY.ask('GET', 'hosts/' + it['host'])
            node = next(node for node in self.NODES
                        if node['host'] in it['host'])
            self.assertEqual(
                node['wwpns'],
                sorted(wwpn.replace(':', '') for wwpn in host['wwpns']))
            self.assertEqual([], host['initiators'])
        for it in self.NODES:
            self.driver.terminate_connection(volume, it)
        self.assertEqual(1, len(self.left()['hosts']))
        ended = self.driver.terminate_connection(other, first)['data']
        self.assertEqual(luns[0]['initiator_target_map'],
                         ended['initiator_target_map'])
        for it in (volume, other):
            self.driver.delete_volume(it)
        self.assertEqual(before, self.left())


class DriverTest(DriverCase):

    def test_volumes(self):
        before = self.left()
        volume = self.new_volume()
        seen = self.seen(f'cv-{volume.id}')
        self.assertEqual((units.Gi, f'cvg-{volume.id}'),
                         (seen['size'], seen['group']))
        self.assertTrue(seen['policy_in_force']['dedup'])
        self.driver.extend_volume(volume, 3)
        self.assertEqual(3 * units.Gi, self.seen(f'cv-{volume.id}')['size'])
        self.assertRaises(
            kaminario_common.KaminarioCinderDriverException,
            self.driver.extend_volume, volume, 1)
        self.driver.delete_volume(volume)
        self.driver.delete_volume(volume)
        self.assertEqual(before, self.left())

    def test_without_dedup(self):
        volume = self.new_volume(
            type_=self.type_of(kaminario_thin_prov_type='nodedup'))
        self.assertFalse(
            self.seen(f'cv-{volume.id}')['policy_in_force']['dedup'])

    def test_connections(self):
        before = self.left()
        volume, other = self.new_volume(), self.new_volume()
        luns = [self.driver.initialize_connection(volume, it)['data']
                for it in (NODE, NODE, SECOND)]
        self.assertEqual(luns[0], luns[1])
        self.assertGreaterEqual(luns[0]['target_lun'], 1)
        self.assertEqual(ARRAY.ready['target_iqn'], luns[0]['target_iqn'])
        self.assertEqual('127.0.0.1:3260', luns[0]['target_portal'])
        second = self.driver.initialize_connection(other, NODE)['data']
        self.assertNotEqual(luns[0]['target_lun'], second['target_lun'])
        self.assertRaises(
            kaminario_common.KaminarioCinderDriverException,
            self.driver.delete_volume, volume)
        for it in (NODE, SECOND):
            self.driver.terminate_connection(volume, it)
        self.driver.terminate_connection(volume, NODE)
        self.assertEqual(1, len(self.left()['hosts']))
        self.driver.terminate_connection(other, NODE)
        for it in (volume, other):
            self.driver.delete_volume(it)
        self.assertEqual(before, self.left())

    def test_snapshots_and_what_is_made_of_them(self):
        before = self.left()
        volume = self.new_volume()
        self.assertTrue(self.work(volume, 'write -P 1 0 64k'))
        snapshot = self.new_snapshot(volume)
        self.assertTrue(self.work(volume, 'write -P 2 0 64k'))
        copy, clone = self.volume(), self.volume()
        self.driver.create_volume_from_snapshot(copy, snapshot)
        self.assertTrue(self.work(copy, 'read -P 1 0 64k'))
        self.driver.create_cloned_volume(clone, volume)
        self.assertTrue(self.work(clone, 'read -P 2 0 64k'))
        self.driver.delete_snapshot(snapshot)
        self.driver.delete_snapshot(snapshot)
        for it in (volume, copy, clone):
            self.driver.delete_volume(it)
        self.assertEqual(before, self.left())

    def test_a_copy_that_fails_leaves_nothing(self):
        volume = self.new_volume()
        snapshot = self.new_snapshot(volume)
        before = self.left()
        self.patch('cinder.volume.volume_utils.copy_volume',
                   side_effect=RuntimeError)
        self.assertRaises(
            kaminario_common.KaminarioCinderDriverException,
            self.driver.create_volume_from_snapshot, self.volume(), snapshot)
        self.assertEqual(before, self.left())

    def test_manage(self):
        ARRAY.ask('POST', 'volumes', {'name': 'old', 'size': 3 * units.Mi})
        reference, volume = {'source-name': 'old'}, self.volume()
        self.assertEqual(
            1, self.driver.manage_existing_get_size(volume, reference))
        self.driver.manage_existing(volume, reference)
        seen = self.seen(f'cv-{volume.id}')
        self.assertEqual((3 * units.Mi, f'cvg-{volume.id}'),
                         (seen['size'], seen['group']))
        self.driver.unmanage(volume)
        self.assertEqual(seen['id'], self.seen(f'cv-{volume.id}')['id'])
        self.driver.initialize_connection(volume, NODE)
        self.assertRaises(
            exception.ManageExistingInvalidReference,
            self.driver.manage_existing, self.volume(),
            {'source-name': f'cv-{volume.id}'})
        self.driver.terminate_connection(volume, NODE)
        self.assertRaises(
            exception.ManageExistingInvalidReference,
            self.driver.manage_existing_get_size, volume,
            {'source-name': 'nothing'})

    def test_retype_and_migration(self):
        volume = self.new_volume()
        plain = self.type_of(kaminario_thin_prov_type='nodedup')
        self.assertFalse(self.driver.retype(self.context, volume, plain,
                                            None, None))
        other = self.new_volume(type_=plain)
        self.driver.after_volume_copy(self.context, volume, other)
        self.assertFalse(
            self.seen(f'cv-{volume.id}')['policy_in_force']['dedup'])

    def test_figures(self):
        before = self.driver.get_volume_stats(refresh=True).copy()
        self.new_volume(size=5)
        after = self.driver.get_volume_stats(refresh=True)
        self.assertEqual('iSCSI', after['storage_protocol'])
        self.assertGreater(after['total_capacity_gb'], 1)
        self.assertGreaterEqual(after['total_capacity_gb'],
                                after['free_capacity_gb'])
        self.assertEqual(5, after['provisioned_capacity_gb']
                         - before['provisioned_capacity_gb'])
        self.assertEqual(len(self.left()['volumes']),
                         after['total_volumes'])

    def test_a_server_that_is_started_again(self):
        volume = self.new_volume()
        answer = self.driver.initialize_connection(volume, NODE)
        mapping = self.driver.client.search('mappings').hits[0]
        ARRAY.end_server()
        ARRAY.serve(OTHER.as_peer('second'))
        again = self.make_driver().client.search('mappings').hits[0]
        self.assertEqual((mapping.id, answer['data']['target_lun']),
                         (again.id, again.lun))
        self.driver.terminate_connection(volume, NODE)
        self.driver.delete_volume(volume)


class ReplicationCase(DriverCase):

    def setUp(self):
        super().setUp()
        self.driver = self.make_driver(replication_device=[{
            'backend_id': OTHER.address, 'login': 'admin',
            'password': OTHER.token, 'rpo': '5'}], san_password=ARRAY.token)
        self.replicated = self.type_of(kaminario_replication='enabled')
        self.service = objects.Service(active_backend_id=None)
        self.patch('cinder.objects.Service.get_by_args',
                   return_value=self.service)

    def session(self, array, name):
        return client(array).search('replication/sessions', name=name).hits[0]

    def transferred(self, volume):
        """Waits until the other array has a point."""
        def there():
            all_ = OTHER.ask('GET', 'replications')['items']
            return any(it['name'] == f'ssn-{volume.id}'
                       and it['progress']['last_point'] is not None
                       for it in all_)
        self.wait_until(there)

    def wait_until(self, there):
        """Asks until it is so; the run's own limit ends one that hangs."""
        while not there():
            pass



class ReplicationTest(ReplicationCase):

    def test_life(self):
        before = [self.left(it) for it in (ARRAY, OTHER)]
        volume = self.new_volume(type_=self.replicated)
        mine = self.session(ARRAY, f'ssn-{volume.id}')
        other = self.session(OTHER, f'rssn-{volume.id}')
        self.assertEqual(('in_sync', 'source', 5),
                         (mine.state, mine.current_role, mine.rpo))
        self.assertEqual(('in_sync', 'target'),
                         (other.state, other.current_role))
        self.assertEqual(OTHER.address,
                         mine.replication_peer_k2array.mgmt_host)
        self.assertEqual(1, client(OTHER).search(
            'volumes', name=f'rcv-{volume.id}').total)
        self.driver.delete_volume(volume)
        self.assertEqual(before,
                         [self.left(it) for it in (ARRAY, OTHER)])

    def test_retype(self):
        before = self.left(OTHER)
        volume = self.new_volume()
        self.assertTrue(self.driver.retype(self.context, volume,
                                           self.replicated, None, None))
        self.transferred(volume)
        volume.volume_type = self.replicated
        self.assertTrue(self.driver.retype(self.context, volume,
                                           self.type_of(), None, None))
        self.assertEqual(before, self.left(OTHER))
        volume.volume_type = self.type_of()
        self.driver.delete_volume(volume)

    def test_an_array_that_is_no_peer(self):
        before = self.left(OTHER)
        self.driver.replica.backend_id = '192.0.2.1'
        self.assertRaises(
            kaminario_common.KaminarioCinderDriverException,
            self.driver.create_volume,
            self.volume(type_=self.replicated))
        self.assertEqual(before, self.left(OTHER))

    def test_an_operator_changes_no_session(self):
        volume = self.new_volume(type_=self.replicated)
        self.transferred(volume)
        mine = client(OTHER, password=OTHER.operator)
        session = mine.search('replication/sessions',
                              name=f'rssn-{volume.id}').hits[0]
        session.state = 'failed_over'
        error = self.assertRaises(requests.exceptions.HTTPError, session.save)
        self.assertEqual(403, error.response.status_code)
        state = ARRAY.ask('GET', f'replications/ssn-{volume.id}')
        self.assertIn(state['progress']['state'], ('idle', 'syncing'))
        self.driver.delete_volume(volume)

    def test_a_peer_whose_token_may_not_demote(self):
        volume = self.new_volume(type_=self.replicated)
        self.transferred(volume)
        peer = ARRAY.as_peer(OTHER.peer_name)
        with open(peer['token_file'], 'w') as file:
            file.write(ARRAY.operator)
        self.assertRaises(requests.exceptions.HTTPError,
                          self.driver.failover_host, self.context, [volume])
        ARRAY.as_peer(OTHER.peer_name)
        self.assertEqual('in_sync',
                         self.session(OTHER, f'rssn-{volume.id}').state)
        self.driver.delete_volume(volume)

    def fail_over(self, volume):
        active, updates, _groups = self.driver.failover_host(
            self.context, [volume])
        volume.replication_status = updates[0]['updates'][
            'replication_status']
        self.service.active_backend_id = active
        volume.volume_attachment = objects.VolumeAttachmentList(objects=[])
        return active

    def test_failover_and_back(self):
        before = [self.left(it) for it in (ARRAY, OTHER)]
        volume = self.new_volume(type_=self.replicated)
        self.assertTrue(self.work(volume, 'write -P 1 0 64k'))
        self.transferred(volume)
        # What the last periodic point does not have goes over as well.
        self.assertTrue(self.work(volume, 'write -P 2 0 64k'))
        self.assertEqual(OTHER.address, self.fail_over(volume))
        self.assertEqual(fields.ReplicationStatus.FAILED_OVER,
                         volume.replication_status)
        self.assertEqual(
            ('failed_over', 'suspended'),
            (self.session(OTHER, f'rssn-{volume.id}').state,
             self.session(ARRAY, f'ssn-{volume.id}').state))
        self.assertTrue(self.work(volume, 'read -P 2 0 64k',
                                  'write -P 3 0 64k', array=OTHER))
        self.assertEqual(ARRAY.address, self.fail_over(volume))
        back = self.session(ARRAY, f'ssn-{volume.id}')
        self.assertEqual(('in_sync', 'source'),
                         (back.state, back.current_role))
        self.assertTrue(self.work(volume, 'read -P 3 0 64k'))
        self.driver.delete_volume(volume)
        self.assertEqual(before,
                         [self.left(it) for it in (ARRAY, OTHER)])

    def test_a_failover_by_an_administrator(self):
        before = [self.left(it) for it in (ARRAY, OTHER)]
        volume = self.new_volume(type_=self.replicated)
        self.assertTrue(self.work(volume, 'write -P 1 0 64k'))
        client(ARRAY, password=ARRAY.token).new(
            'snapshots', is_application_consistent=False,
            replication_session=self.session(
                ARRAY, f'ssn-{volume.id}')).save()
        self.wait_until(lambda: self.session(
            ARRAY, f'ssn-{volume.id}').current_snapshot_progress == 100)
        OTHER.ask('POST', f'replications/ssn-{volume.id}/promote',
                  {'force': True})
        self.assertEqual(OTHER.address, self.fail_over(volume))
        # The source takes writes in that time, which are lost.
        self.assertTrue(self.work(volume, 'read -P 1 0 64k',
                                  'write -P 2 0 64k', array=OTHER))
        self.assertEqual(ARRAY.address, self.fail_over(volume))
        self.assertTrue(self.work(volume, 'read -P 2 0 64k'))
        self.driver.delete_volume(volume)
        self.assertEqual(before,
                         [self.left(it) for it in (ARRAY, OTHER)])


class DisasterTest(ReplicationCase):

    def setUp(self):
        global ARRAY, OTHER
        before = ARRAY, OTHER
        ARRAY, OTHER = rig.pair()
        super().setUp()

        def restore():
            global ARRAY, OTHER
            for it in ARRAY, OTHER:
                it.stop()
            ARRAY, OTHER = before
        self.addCleanup(restore)

    def test_a_source_that_is_lost(self):
        volume = self.new_volume(type_=self.replicated)
        self.assertTrue(self.work(volume, 'write -P 1 0 64k'))
        client(ARRAY).new('snapshots', is_application_consistent=False,
                          replication_session=self.session(
                              ARRAY, f'ssn-{volume.id}')).save()
        self.wait_until(lambda: self.session(
            ARRAY, f'ssn-{volume.id}').current_snapshot_progress == 100)
        ARRAY.kill()
        active, updates, _groups = self.driver.failover_host(
            self.context, [volume])
        self.assertEqual(OTHER.address, active)
        volume.replication_status = updates[0]['updates'][
            'replication_status']
        self.assertTrue(self.work(volume, 'read -P 1 0 64k',
                                  'write -P 2 0 64k', array=OTHER))
        # Replication is given up: the volume stays, in its own group.
        self.driver._delete_replication(volume)
        seen, = OTHER.ask('GET', 'volumes')['items']
        self.assertEqual(f'rcvg-{volume.id}', seen['group'])
        self.assertEqual([f'rcvg-{volume.id}'], self.left(OTHER)['groups'])
        self.assertTrue(self.work(volume, 'read -P 2 0 64k', array=OTHER))

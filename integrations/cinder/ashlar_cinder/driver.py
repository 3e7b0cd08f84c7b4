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
"""Volume driver for Ashlar all-flash arrays, over iSCSI."""

from typing import Any
from typing import Optional

from os_brick import constants as brick_constants
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import strutils
from oslo_utils import units

from cinder.common import constants
from cinder import context as cinder_context
from cinder import exception
from cinder.i18n import _
from cinder import interface
from cinder.objects import fields
from cinder.volume import configuration
from cinder.volume import driver
from cinder.volume.drivers.san import san
from cinder.volume import qos_specs
from cinder.volume import volume_utils

from ashlar_cinder import client as array_client

LOG = logging.getLogger(__name__)

OPTIONS = [
    cfg.StrOpt('ashlar_api_token',
               secret=True,
               help='API token of the array, with the role operator.'),
    cfg.StrOpt('ashlar_volume_group',
               help='Volume group of the array for the volumes of this back '
                    'end: its QoS limits, quotas and data reduction settings '
                    'hold for all of them.'),
]
CONF = cfg.CONF
CONF.register_opts(OPTIONS, group=configuration.SHARED_CONF_GROUP)

# Labels of what the driver makes.
VOLUME_LABEL = 'cinder.volume'
SNAPSHOT_LABEL = 'cinder.snapshot'

# LUNs from here on need flat space addressing (SAM-5, 4.7.7).
FIRST_FLAT_LUN = 256

# Extra specs of volume types.
DEDUP_SPEC = 'ashlar:dedup'
COMPRESSION_SPEC = 'ashlar:compression'
COMPRESSION_LEVELS = ('off', 'fast', 'high', 'adaptive')
QOS_KEYS = ('maxIOPS', 'maxBWS', 'maxIOPS_per_GB', 'maxBWS_per_GB')


@interface.volumedriver
class ISCSIDriver(driver.VolumeDriver):
    """Ashlar iSCSI volume driver.

    .. code-block:: none

      Version history:

        1.0 - Volumes, snapshots, clones, revert, retype, QoS, groups with
              consistent snapshots, multiattach, manage and unmanage,
              active/active
    """

    VERSION = '1.0'
    CI_WIKI_NAME = 'Ashlar_CI'
    SUPPORTS_ACTIVE_ACTIVE = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(OPTIONS)
        self.configuration.append_config_values(san.san_opts)
        self._array: Optional[array_client.Client] = None
        self._serial = ''

    @classmethod
    def get_driver_options(cls):
        more = cls._get_oslo_driver_opts(
            'san_ip', 'san_api_port', 'driver_ssl_cert_verify',
            'driver_ssl_cert_path', 'use_chap_auth', 'chap_username',
            'chap_password')
        return OPTIONS + more

    # Set-up

    @property
    def array(self) -> array_client.Client:
        if self._array is None:
            raise exception.VolumeDriverException(
                message=_('the driver has not been set up'))
        return self._array

    def do_setup(self, context):
        """Reads the configuration and asks the array who it is."""
        get = self.configuration.safe_get
        missing = [it for it in ('san_ip', 'ashlar_api_token') if not get(it)]
        if missing:
            raise exception.InvalidInput(
                reason=_('set %s in the back end\'s section of cinder.conf')
                % ', '.join(missing))
        address = get('san_ip')
        if ':' in address and not address.startswith('['):
            address = f'[{address}]'
        port = get('san_api_port')
        verify = get('driver_ssl_cert_path') or True
        if not get('driver_ssl_cert_verify') and verify is True:
            # The option's default is not to verify, but the token would go
            # to any server at the address: so this is logged.
            LOG.warning('driver_ssl_cert_verify is off: any server at '
                        '%s gets the token; set driver_ssl_cert_path to the '
                        'certificate of the array', address)
            verify = False
        self._array = array_client.Client(
            f'https://{address}' + (f':{port}' if port else ''),
            get('ashlar_api_token'), verify, self.VERSION)

    def check_for_setup_error(self):
        status = self.array.status()
        self._serial = status['id']
        group = self._group()
        if group and not self.array.find_group(group):
            raise exception.InvalidInput(
                reason=_('the array has no volume group "%s": create it or '
                         'correct ashlar_volume_group') % group)
        if self.configuration.safe_get('use_chap_auth'):
            if not (self.configuration.safe_get('chap_username')
                    and self.configuration.safe_get('chap_password')):
                raise exception.InvalidInput(
                    reason=_('use_chap_auth needs chap_username and '
                             'chap_password'))

    def _group(self) -> Optional[str]:
        return self.configuration.safe_get('ashlar_volume_group')

    def _location(self) -> str:
        return f'ashlar:{self._serial}:{self._group() or ""}'

    def _update_volume_stats(self):
        status = self.array.status()
        capacity = status['capacity']
        get = self.configuration.safe_get
        self._serial = status['id']
        self._stats = {
            'volume_backend_name': (get('volume_backend_name')
                                    or self.__class__.__name__),
            'vendor_name': 'Ashlar',
            'driver_version': self.VERSION,
            'storage_protocol': constants.ISCSI,
            'total_capacity_gb': capacity['total'] / units.Gi,
            'free_capacity_gb': capacity['free'] / units.Gi,
            'provisioned_capacity_gb': capacity['provisioned'] / units.Gi,
            'allocated_capacity_gb': capacity['used'] / units.Gi,
            'reserved_percentage': get('reserved_percentage'),
            'max_over_subscription_ratio':
                volume_utils.get_max_over_subscription_ratio(
                    get('max_over_subscription_ratio'), supports_auto=True),
            'thin_provisioning_support': True,
            'thick_provisioning_support': False,
            'QoS_support': True,
            'multiattach': True,
            'online_extend_support': True,
            'sparse_copy_volume': True,
            'consistent_group_snapshot_enabled': True,
            'consistent_group_replication_enabled': False,
            'replication_enabled': False,
            'location_info': self._location(),
            'filter_function': self.get_filter_function(),
            'goodness_function': self.get_goodness_function(),
            'backend_state': 'up' if status['state'] == 'online' else 'down',
        }

    # Names and ids

    @staticmethod
    def _volume_name(volume) -> str:
        return array_client.object_name('cinder', volume.name)

    @staticmethod
    def _snapshot_name(snapshot) -> str:
        return array_client.object_name('cinder', snapshot.name)

    def _volume_ref(self, volume) -> str:
        """The immutable id; the name if creation did not get that far."""
        return volume.provider_id or self._volume_name(volume)

    def _snapshot_ref(self, snapshot) -> str:
        return snapshot.provider_id or self._snapshot_name(snapshot)

    def _need_volume(self, volume) -> array_client.Volume:
        found = self.array.find_volume(self._volume_ref(volume))
        if not found:
            raise exception.VolumeDriverException(
                message=_('volume %(id)s is not on the array (as %(ref)s)')
                % {'id': volume.id, 'ref': self._volume_ref(volume)})
        return found

    # What a volume type asks for

    @staticmethod
    def _specs(volume_type) -> tuple[dict[str, str], dict[str, str]]:
        """Extra specs and QoS specs of a type."""
        if not volume_type:
            return {}, {}
        extra = dict(volume_type.get('extra_specs') or {})
        qos = {}
        if volume_type.get('qos_specs_id'):
            found = qos_specs.get_qos_specs(
                cinder_context.get_admin_context(),
                volume_type['qos_specs_id'])
            if found['consumer'] in ('back-end', 'both'):
                qos = dict(found['specs'])
        return extra, qos

    @classmethod
    def _limits(cls, volume_type, size_gb: int) -> dict[str, Optional[int]]:
        """QoS limits of the type for a size; ``None``: unlimited."""
        extra, qos = cls._specs(volume_type)
        value = {}
        for key in QOS_KEYS:
            text = qos.get(key) or extra.get(key) or extra.get(f'qos:{key}')
            try:
                value[key] = int(text or 0)
            except ValueError:
                raise exception.InvalidVolumeType(
                    reason=_('%(key)s is "%(text)s": it must be a number')
                    % {'key': key, 'text': text})
        iops = value['maxIOPS'] or value['maxIOPS_per_GB'] * size_gb
        mib = value['maxBWS'] or value['maxBWS_per_GB'] * size_gb
        return {'iops': iops or None,
                'bandwidth': mib * units.Mi if mib else None}

    @classmethod
    def _policy(cls, volume_type) -> dict[str, Any]:
        """Data reduction settings; ``None``: those of group and array."""
        extra, _qos = cls._specs(volume_type)
        policy: dict[str, Any] = {'dedup': None, 'compression': None}
        if DEDUP_SPEC in extra:
            text = extra[DEDUP_SPEC].replace('<is>', '').strip()
            policy['dedup'] = strutils.bool_from_string(text, strict=True)
        if COMPRESSION_SPEC in extra:
            level = extra[COMPRESSION_SPEC]
            if level not in COMPRESSION_LEVELS:
                raise exception.InvalidVolumeType(
                    reason=_('%(spec)s is "%(level)s": it must be one of '
                             '%(levels)s')
                    % {'spec': COMPRESSION_SPEC, 'level': level,
                       'levels': ', '.join(COMPRESSION_LEVELS)})
            policy['compression'] = level
        return policy

    def _apply_type(self, ref: str, volume_type, size_gb: int) -> None:
        """Gives a volume the limits and the policy of its type."""
        self.array.change_volume(
            ref, limits=self._limits(volume_type, size_gb),
            policy=self._policy(volume_type))

    # Volumes

    def _make(self, volume, **content) -> dict[str, Any]:
        """Creates a volume with everything that its type asks for."""
        volume_type = volume.volume_type
        # Nothing is made of a type that makes no sense.
        self._limits(volume_type, volume.size)
        self._policy(volume_type)
        labels = {VOLUME_LABEL: volume.id, 'name': volume.name}
        if self._group():
            content['group'] = self._group()
        made = self.array.create_volume(
            name=self._volume_name(volume), labels=labels, **content)
        wanted = volume.size * units.Gi
        if made['size'] < wanted:
            self.array.change_volume(made['id'], size=wanted)
        self._apply_type(made['id'], volume_type, volume.size)
        return {'provider_id': made['id']}

    def create_volume(self, volume):
        return self._make(volume, size=volume.size * units.Gi)

    def create_volume_from_snapshot(self, volume, snapshot):
        return self._make(volume, source=self._snapshot_ref(snapshot))

    def create_cloned_volume(self, volume, src_vref):
        return self._make(volume, source=self._volume_ref(src_vref))

    def delete_volume(self, volume):
        found = self.array.find_volume(self._volume_ref(volume))
        if not found:
            LOG.info('Volume %s is not on the array: deleted already.',
                     volume.id)
            return
        if found['connections']:
            raise exception.VolumeIsBusy(volume_name=volume.name)
        # To the recycle bin of the array; only people eradicate.
        self.array.delete_volume(found['id'])

    def extend_volume(self, volume, new_size):
        ref = self._volume_ref(volume)
        self.array.change_volume(ref, size=new_size * units.Gi)
        # Limits for each GB grow with it.
        self.array.change_volume(
            ref, limits=self._limits(volume.volume_type, new_size))

    # Snapshots

    def create_snapshot(self, snapshot):
        source = {'volume': self._volume_ref(snapshot.volume),
                  'name': self._snapshot_name(snapshot),
                  'labels': {SNAPSHOT_LABEL: snapshot.id,
                             'name': snapshot.name}}
        made = self.array.create_snapshots([source])[0]
        return {'provider_id': made['id']}

    def delete_snapshot(self, snapshot):
        if not self.array.delete_snapshot(self._snapshot_ref(snapshot)):
            LOG.info('Snapshot %s is not on the array: deleted already.',
                     snapshot.id)

    def revert_to_snapshot(self, context, volume, snapshot):
        """The volume keeps the size that Cinder knows."""
        self.array.restore_volume(
            self._volume_ref(volume), source=self._snapshot_ref(snapshot),
            keep_size=True)

    def snapshot_revert_use_temp_snapshot(self):
        # The array replaces the map of the volume in one step.
        return False

    # Retype and migration

    def retype(self, context, volume, new_type, diff, host):
        """In place, unless the volume has to go to another back end."""
        if host['host'] != volume.host:
            return False, None
        self._apply_type(self._volume_ref(volume), new_type, volume.size)
        return True, None

    def migrate_volume(self, context, volume, host):
        """To another back end on the same array: only its group changes."""
        there = (host.get('capabilities') or {}).get('location_info') or ''
        vendor, _sep, place = there.partition(':')
        serial, _sep, group = place.partition(':')
        if vendor != 'ashlar' or not serial or serial != self._serial:
            return False, None
        self.array.change_volume(self._volume_ref(volume), group=group or None)
        return True, None

    def update_migrated_volume(self, ctxt, volume, new_volume,
                               original_volume_status):
        """The new volume keeps its name; its label names its owner."""
        ref = new_volume.provider_id or self._volume_name(new_volume)
        self.array.change_volume(ref, labels={VOLUME_LABEL: volume.id})
        # provider_id is swapped by the manager.
        return {'_name_id': new_volume.name_id,
                'provider_location': new_volume.provider_location}

    def update_provider_info(self, volumes, snapshots):
        """Ids of what an interrupted creation left without one."""
        volume_updates, snapshot_updates = [], []
        for volume in volumes or []:
            if not volume.provider_id:
                found = self.array.find_volume(self._volume_name(volume))
                if found:
                    volume_updates.append(
                        {'id': volume.id, 'provider_id': found['id']})
        for snapshot in snapshots or []:
            if not snapshot.provider_id:
                known = self.array.find_snapshot(
                    self._snapshot_name(snapshot))
                if known:
                    snapshot_updates.append(
                        {'id': snapshot.id, 'provider_id': known['id']})
        return volume_updates, snapshot_updates

    # Connections

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def _chap(self) -> Optional[dict[str, str]]:
        if not self.configuration.safe_get('use_chap_auth'):
            return None
        return {'user': self.configuration.safe_get('chap_username'),
                'secret': self.configuration.safe_get('chap_password')}

    def _ensure_host(self, connector) -> array_client.Host:
        """The host with the connector's initiator, made if there is none."""
        initiator = connector['initiator']
        host = self.array.host_of(initiator)
        chap = self._chap()
        if host:
            if chap:
                self.array.change_host(host['id'], chap=chap)
            return host
        name = array_client.object_name(
            'cinder', f'cinder-{connector["host"]}')
        request = {'name': name, 'initiators': [initiator],
                   'labels': {'cinder.host': connector['host']}}
        if chap:
            request['chap'] = chap
        try:
            return self.array.create_host(**request)
        except array_client.ArrayError as error:
            if error.kind != 'differs' and error.field != 'name':
                raise
            # A node of this name with another initiator: reinstalled, or of
            # another cloud.
            request['name'] = array_client.object_name(
                'cinder', f'{name} {initiator}')
            return self.array.create_host(**request)

    def validate_connector(self, connector):
        if not connector.get('initiator'):
            raise exception.InvalidConnectorException(missing='initiator')

    def initialize_connection(self, volume, connector, initiator_data=None):
        self.validate_connector(connector)
        host = self._ensure_host(connector)
        attachment = self.array.connect(self._volume_ref(volume), host)
        portals = [f'[{it["address"]}]:{it["port"]}' if ':' in it['address']
                   else f'{it["address"]}:{it["port"]}'
                   for it in attachment['portals']]
        lun = attachment['lun']
        data: dict[str, Any] = {
            'target_discovered': False,
            'target_iqn': attachment['target_iqn'],
            'target_portal': portals[0],
            'target_lun': lun,
            'target_iqns': [attachment['target_iqn']] * len(portals),
            'target_portals': portals,
            'target_luns': [lun] * len(portals),
            'volume_id': volume.id,
            'discard': True,
        }
        if lun >= FIRST_FLAT_LUN:
            data['addressing_mode'] = brick_constants.SCSI_ADDRESSING_SAM2
        chap = self._chap()
        if chap:
            data.update(auth_method='CHAP', auth_username=chap['user'],
                        auth_password=chap['secret'])
        elif attachment['chap']:
            raise exception.VolumeDriverException(
                message=_('the host %s has to log in with CHAP: set '
                          'use_chap_auth, chap_username and chap_password')
                % host['name'])
        return {'driver_volume_type': 'iscsi', 'data': data}

    @staticmethod
    def _is_attached_twice(volume, connector) -> bool:
        """Whether another instance of the same node has the volume, too."""
        attached = [it for it in volume.volume_attachment or []
                    if it.attach_status
                    == fields.VolumeAttachStatus.ATTACHED
                    and it.attached_host == connector.get('host')]
        return len(attached) > 1

    def terminate_connection(self, volume, connector, **kwargs):
        found = self.array.find_volume(self._volume_ref(volume))
        if not found:
            return
        if connector is None:
            # The node is gone: no host may have the volume any more.
            for it in found['connections']:
                if it['host_id']:
                    self.array.disconnect(found['id'], it['host_id'])
            return
        if volume.multiattach and self._is_attached_twice(volume, connector):
            return
        host = self.array.host_of(connector['initiator'])
        if host:
            self.array.disconnect(found['id'], host['id'])

    # Groups: sets of volumes that Cinder keeps; the array takes snapshots of
    # any set of volumes at one moment, so it has no object for them.

    @staticmethod
    def _only_consistent(group) -> None:
        if not volume_utils.is_group_a_cg_snapshot_type(group):
            raise NotImplementedError()

    def create_group(self, context, group):
        self._only_consistent(group)
        return {'status': fields.GroupStatus.AVAILABLE}

    def update_group(self, context, group, add_volumes=None,
                     remove_volumes=None):
        self._only_consistent(group)
        return None, None, None

    def delete_group(self, context, group, volumes):
        self._only_consistent(group)
        updates = []
        for volume in volumes:
            try:
                self.delete_volume(volume)
                status = fields.GroupStatus.DELETED
            except exception.CinderException:
                LOG.exception('Volume %s can\'t be deleted.', volume.id)
                status = fields.GroupStatus.ERROR_DELETING
            updates.append({'id': volume.id, 'status': status})
        bad = [it for it in updates
               if it['status'] != fields.GroupStatus.DELETED]
        status = (fields.GroupStatus.ERROR_DELETING if bad
                  else fields.GroupStatus.DELETED)
        return {'status': status}, updates

    def create_group_from_src(self, context, group, volumes,
                              group_snapshot=None, snapshots=None,
                              source_group=None, source_vols=None):
        self._only_consistent(group)
        if snapshots:
            made = [self.create_volume_from_snapshot(volume, snapshot)
                    for volume, snapshot in zip(volumes, snapshots)]
        else:
            made = self._clone_group(group, volumes, source_vols)
        return None, [dict(update, id=volume.id, status='available')
                      for volume, update in zip(volumes, made)]

    def _clone_group(self, group, volumes, sources) -> list[dict[str, Any]]:
        """Clones of one moment, by snapshots that go afterwards."""
        taken = self.array.create_snapshots(
            [{'volume': self._volume_ref(it),
              'name': array_client.object_name(
                  'cinder', f'group-{group.id}-{it.id}')}
             for it in sources])
        try:
            return [self._make(volume, source=snapshot['id'])
                    for volume, snapshot in zip(volumes, taken)]
        finally:
            for snapshot in taken:
                self.array.delete_snapshot(snapshot['id'])

    def create_group_snapshot(self, context, group_snapshot, snapshots):
        self._only_consistent(group_snapshot)
        sources = [{'volume': self._volume_ref(it.volume),
                    'name': self._snapshot_name(it),
                    'labels': {SNAPSHOT_LABEL: it.id, 'name': it.name,
                               'cinder.group_snapshot': group_snapshot.id}}
                   for it in snapshots]
        taken = self.array.create_snapshots(sources) if sources else []
        updates = [{'id': it.id, 'provider_id': made['id'],
                    'status': fields.SnapshotStatus.AVAILABLE}
                   for it, made in zip(snapshots, taken)]
        return {'status': fields.GroupSnapshotStatus.AVAILABLE}, updates

    def delete_group_snapshot(self, context, group_snapshot, snapshots):
        self._only_consistent(group_snapshot)
        updates = []
        for snapshot in snapshots:
            self.delete_snapshot(snapshot)
            updates.append({'id': snapshot.id,
                            'status': fields.SnapshotStatus.DELETED})
        return {'status': fields.GroupSnapshotStatus.DELETED}, updates

    # Volumes and snapshots that Cinder has not made

    @staticmethod
    def _existing_ref(existing_ref) -> str:
        for key in ('source-id', 'id', 'source-name', 'name'):
            if existing_ref.get(key):
                return existing_ref[key]
        raise exception.ManageExistingInvalidReference(
            existing_ref=existing_ref,
            reason=_('give the name or the id on the array as source-name or '
                     'source-id'))

    def _existing_volume(self, existing_ref) -> array_client.Volume:
        found = self.array.find_volume(self._existing_ref(existing_ref))
        if not found:
            raise exception.ManageExistingInvalidReference(
                existing_ref=existing_ref,
                reason=_('the array has no such volume'))
        return found

    def _existing_snapshot(self, existing_ref) -> array_client.Snapshot:
        found = self.array.find_snapshot(self._existing_ref(existing_ref))
        if not found:
            raise exception.ManageExistingInvalidReference(
                existing_ref=existing_ref,
                reason=_('the array has no such snapshot'))
        return found

    @staticmethod
    def _whole_gib(size: int) -> int:
        return -(-size // units.Gi)

    def manage_existing_get_size(self, volume, existing_ref):
        return self._whole_gib(self._existing_volume(existing_ref)['size'])

    def manage_existing(self, volume, existing_ref):
        found = self._existing_volume(existing_ref)
        reason = self._why_not(found['connections'],
                               found['labels'].get(VOLUME_LABEL))
        if reason:
            raise exception.ManageExistingInvalidReference(
                existing_ref=existing_ref, reason=reason)
        size_gb = self._whole_gib(found['size'])
        if found['size'] < size_gb * units.Gi:
            self.array.change_volume(found['id'], size=size_gb * units.Gi)
        change: dict[str, Any] = {
            'name': self._volume_name(volume),
            'labels': {VOLUME_LABEL: volume.id, 'name': volume.name}}
        if self._group():
            change['group'] = self._group()
        self.array.change_volume(found['id'], **change)
        self._apply_type(found['id'], volume.volume_type, size_gb)
        return {'provider_id': found['id']}

    def manage_existing_snapshot_get_size(self, snapshot, existing_ref):
        return self._whole_gib(self._existing_snapshot(existing_ref)['size'])

    def manage_existing_snapshot(self, snapshot, existing_ref):
        found = self._existing_snapshot(existing_ref)
        volume = self._need_volume(snapshot.volume)
        if found['source_id'] != volume['id']:
            raise exception.ManageExistingInvalidReference(
                existing_ref=existing_ref,
                reason=_('it is not a snapshot of volume %s')
                % snapshot.volume_id)
        if found['labels'].get(SNAPSHOT_LABEL, snapshot.id) != snapshot.id:
            raise exception.ManageExistingInvalidReference(
                existing_ref=existing_ref,
                reason=_('it is managed by Cinder already'))
        self.array.change_snapshot(
            found['id'], name=self._snapshot_name(snapshot))
        self.array.change_snapshot(
            found['id'], labels={SNAPSHOT_LABEL: snapshot.id,
                                 'name': snapshot.name})
        return {'provider_id': found['id']}

    def unmanage(self, volume):
        """The volume stays, without a trace of Cinder in its labels."""
        found = self._need_volume(volume)
        self.array.change_volume(
            found['id'], name=self._free_name(found['name']),
            labels={VOLUME_LABEL: None, 'name': None})

    def unmanage_snapshot(self, snapshot):
        ref = self._snapshot_ref(snapshot)
        found = self.array.find_snapshot(ref)
        if not found:
            raise exception.VolumeDriverException(
                message=_('snapshot %s is not on the array') % snapshot.id)
        self.array.change_snapshot(
            found['id'], name=self._free_name(found['name']))
        self.array.change_snapshot(
            found['id'], labels={SNAPSHOT_LABEL: None, 'name': None})

    @staticmethod
    def _free_name(name: str) -> str:
        if name.endswith('-unmanaged'):
            return name
        return array_client.object_name('unmanaged', f'{name}-unmanaged')

    @staticmethod
    def _why_not(connections, cinder_id) -> str:
        if cinder_id:
            return _('it is managed by Cinder already')
        if connections:
            return _('it is connected to a host')
        return ''

    def get_manageable_volumes(self, cinder_volumes, marker, limit, offset,
                               sort_keys, sort_dirs):
        known = {it.provider_id: it.id for it in cinder_volumes
                 if it.provider_id}
        entries = []
        for volume in self.array.volumes():
            cinder_id = known.get(volume['id'])
            label = cinder_id or volume['labels'].get(VOLUME_LABEL)
            reason = self._why_not(volume['connections'], label)
            entries.append({
                'reference': {'source-name': volume['name']},
                'size': self._whole_gib(volume['size']),
                'safe_to_manage': not reason,
                'reason_not_safe': reason or None,
                'cinder_id': cinder_id,
                'extra_info': volume['id'],
            })
        return volume_utils.paginate_entries_list(
            entries, marker, limit, offset, sort_keys, sort_dirs)

    def get_manageable_snapshots(self, cinder_snapshots, marker, limit,
                                 offset, sort_keys, sort_dirs):
        known = {it.provider_id: it.id for it in cinder_snapshots
                 if it.provider_id}
        entries = []
        for snapshot in self.array.snapshots():
            cinder_id = known.get(snapshot['id'])
            label = cinder_id or snapshot['labels'].get(SNAPSHOT_LABEL)
            reason = self._why_not([], label)
            if not snapshot['source']:
                reason = reason or _('its volume has been deleted')
            entries.append({
                'reference': {'source-name': snapshot['name']},
                'size': self._whole_gib(snapshot['size']),
                'safe_to_manage': not reason,
                'reason_not_safe': reason or None,
                'cinder_id': cinder_id,
                'extra_info': snapshot['id'],
                'source_reference': {'source-name': snapshot['source']},
            })
        return volume_utils.paginate_entries_list(
            entries, marker, limit, offset, sort_keys, sort_dirs)

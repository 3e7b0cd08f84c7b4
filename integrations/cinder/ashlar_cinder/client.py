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
"""Client of an Ashlar array's API: the requests that the driver makes.

All of them may be repeated: creations have ensure semantics on the array, and
changes address objects by their immutable ids. So a lost connection is
retried here, and a half-finished operation by its caller.
"""

import base64
import hashlib
import time
from typing import Any
from typing import Optional
from typing import TypedDict
from urllib import parse

from oslo_log import log as logging
import requests

from cinder import exception
from cinder.i18n import _

LOG = logging.getLogger(__name__)

# The driver API that this client speaks; arrays report the range they serve.
DRIVER_API = 1

MAX_NAME_CHARS = 63
HASH_CHARS = 26
CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
ATTEMPTS = 3
RETRY_PAUSE_SECONDS = 0.5


class Connection(TypedDict):
    """A volume or snapshot that a host or host group sees."""
    volume_id: str
    host: Optional[str]
    host_id: Optional[str]
    host_group: Optional[str]
    host_group_id: Optional[str]
    lun: int


class Portal(TypedDict):
    address: str
    port: int


class Attachment(Connection):
    """A connection with all that a host needs to attach; sizes in bytes."""
    naa: str
    target_iqn: str
    portals: list[Portal]
    chap: bool


class Volume(TypedDict):
    """A volume; sizes in bytes."""
    name: str
    id: str
    size: int
    group: Optional[str]
    labels: dict[str, str]
    connections: list[Connection]


class Snapshot(TypedDict):
    """A snapshot; sizes in bytes."""
    name: str
    id: str
    size: int
    source: Optional[str]
    source_id: Optional[str]
    labels: dict[str, str]


class Host(TypedDict):
    name: str
    id: str
    host_group_id: Optional[str]


class ArrayError(exception.VolumeBackendAPIException):
    """A refusal of the array, or no answer.

    ``kind`` is the array's own (not_found, conflict, differs, precondition,
    …) or ``unreachable``, ``version``; ``field`` is the request's field that
    is in the way, if there is one.
    """

    def __init__(self, text: str, kind: str, field: Optional[str] = None):
        super().__init__(data=text)
        self.kind = kind
        self.field = field


def object_name(prefix: str, name: str) -> str:
    """The name on the array for ``name``: the documented hash if too long."""
    if (len(name) <= MAX_NAME_CHARS and name[:1].isalnum() and name.isascii()
            and all(it.isalnum() or it in '-_.' for it in name)):
        return name
    digest = hashlib.sha256(name.encode()).digest()
    text = base64.b32encode(digest).decode().lower()[:HASH_CHARS]
    return f'{prefix}-{text}'


def _quoted(text: str) -> str:
    return parse.quote(text, safe='')


class Client(object):
    """One array.

    :param url: ``https://address[:port]``
    :param verify: ``True``, ``False``, or a file with trusted certificates
    """

    def __init__(self, url: str, token: str, verify: Any, version: str):
        self._url = url.rstrip('/')
        self._token = token
        self._verify = verify
        self._version = version
        self._checked = False

    def _request(self, method: str, path: str, body: Any = None,
                 query: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        if not self._checked and path != 'status':
            self.status()
        headers = {'Authorization': f'Bearer {self._token}',
                   'User-Agent': f'ashlar-cinder/{self._version}'}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = requests.request(
                    method, f'{self._url}/api/v1/{path}', json=body,
                    params=query, headers=headers, verify=self._verify,
                    timeout=(CONNECT_SECONDS, ANSWER_SECONDS))
            except requests.exceptions.SSLError as error:
                raise ArrayError(
                    _('%(url)s: its certificate is not trusted: %(error)s; '
                      'set driver_ssl_cert_path to the certificate')
                    % {'url': self._url, 'error': error}, 'unreachable')
            except requests.exceptions.RequestException as error:
                if attempt == ATTEMPTS:
                    raise ArrayError(
                        _('%(url)s does not answer: %(error)s; check san_ip, '
                          'san_api_port and the network')
                        % {'url': self._url, 'error': error}, 'unreachable')
            else:
                # 503: the array is starting or being replaced.
                if answer.status_code != 503 or attempt == ATTEMPTS:
                    return self._outcome(answer)
            time.sleep(RETRY_PAUSE_SECONDS * attempt)
        raise AssertionError('the last attempt returns or raises')

    def _outcome(self, answer: requests.Response) -> dict[str, Any]:
        if answer.status_code == 204:
            return {}
        try:
            content = answer.json()
            if not isinstance(content, dict):
                raise ValueError
        except ValueError:
            raise ArrayError(
                _('%(url)s: the answer (HTTP %(code)s) is not JSON: is this '
                  'the address of an array?')
                % {'url': self._url, 'code': answer.status_code}, 'failed')
        if answer.ok:
            return content
        detail = content.get('detail') or f'HTTP {answer.status_code}'
        if answer.status_code == 401:
            raise ArrayError(
                _('%(url)s refuses the token: %(detail)s; create one with '
                  '"ashlar token create" and set ashlar_api_token')
                % {'url': self._url, 'detail': detail}, 'unauthorized')
        raise ArrayError(f'{self._url}: {detail}',
                         content.get('kind') or 'failed',
                         content.get('field'))

    def _find(self, path: str) -> Optional[Any]:
        try:
            return self._request('GET', path)
        except ArrayError as error:
            if error.kind == 'not_found':
                return None
            raise

    def _delete(self, path: str) -> bool:
        """Deletes; what is not there counts as deleted."""
        try:
            self._request('DELETE', path)
        except ArrayError as error:
            if error.kind == 'not_found':
                return False
            raise
        return True

    def status(self) -> dict[str, Any]:
        """Identity, state and capacity; refuses arrays of other versions."""
        status = self._request('GET', 'status')
        served = status.get('driver_api') or {}
        low, high = served.get('min', 0), served.get('max', 0)
        if not low <= DRIVER_API <= high:
            raise ArrayError(
                _('%(url)s runs Ashlar %(array)s and serves driver API '
                  '%(low)s to %(high)s; this driver is %(driver)s and speaks '
                  '%(api)s: install the driver that belongs to the array')
                % {'url': self._url, 'array': status.get('version', '?'),
                   'low': low, 'high': high, 'driver': self._version,
                   'api': DRIVER_API}, 'version')
        self._checked = True
        return status

    # Volumes; ``volume`` is a name or an id.

    def volumes(self) -> list[Volume]:
        return self._request('GET', 'volumes')['items']

    def find_volume(self, volume: str) -> Optional[Volume]:
        return self._find(f'volumes/{_quoted(volume)}')

    def create_volume(self, **fields: Any) -> Volume:
        return self._request('POST', 'volumes', fields)  # type: ignore

    def change_volume(self, volume: str, **fields: Any) -> Volume:
        return self._request(  # type: ignore
            'PATCH', f'volumes/{_quoted(volume)}', fields)

    def delete_volume(self, volume: str) -> bool:
        return self._delete(f'volumes/{_quoted(volume)}')

    def restore_volume(self, volume: str, **fields: Any) -> Volume:
        return self._request(  # type: ignore
            'POST', f'volumes/{_quoted(volume)}/restore', fields)

    # Snapshots

    def snapshots(self) -> list[Snapshot]:
        return self._request('GET', 'snapshots')['items']

    def find_snapshot(self, snapshot: str) -> Optional[Snapshot]:
        return self._find(f'snapshots/{_quoted(snapshot)}')

    def create_snapshots(self, sources: list[dict[str, Any]]
                         ) -> list[Snapshot]:
        """Snapshots of all sources at one moment, in their order."""
        body = {'sources': sources}
        return self._request('POST', 'snapshots', body)['items']

    def change_snapshot(self, snapshot: str, **fields: Any) -> Snapshot:
        return self._request(  # type: ignore
            'PATCH', f'snapshots/{_quoted(snapshot)}', fields)

    def delete_snapshot(self, snapshot: str) -> bool:
        return self._delete(f'snapshots/{_quoted(snapshot)}')

    # Hosts and connections

    def host_of(self, initiator: str) -> Optional[Host]:
        """The host with this initiator name."""
        items = self._request('GET', 'hosts',
                              query={'initiator': initiator})['items']
        return items[0] if items else None

    def create_host(self, **fields: Any) -> Host:
        return self._request('POST', 'hosts', fields)  # type: ignore

    def change_host(self, host: str, **fields: Any) -> Host:
        return self._request(  # type: ignore
            'PATCH', f'hosts/{_quoted(host)}', fields)

    def connect(self, volume: str, host: Host) -> Attachment:
        """Connects, with a LUN of at least 1; as it is if it is already."""
        body = {'volume': volume, 'host': host['id'], 'min_lun': 1}
        try:
            return self._request('POST', 'connections', body)  # type: ignore
        except ArrayError as error:
            # What an administrator connected stays as it is.
            path = f'connections/{_quoted(volume)}'
            if error.field == 'min_lun':
                return self._request(  # type: ignore
                    'GET', f'{path}/{host["id"]}')
            if error.field == 'host_group' and host.get('host_group_id'):
                return self._request(  # type: ignore
                    'GET', f'{path}/host-groups/{host["host_group_id"]}')
            raise

    def disconnect(self, volume: str, host: str) -> bool:
        return self._delete(f'connections/{_quoted(volume)}/{_quoted(host)}')

    def find_group(self, group: str) -> Optional[dict[str, Any]]:
        return self._find(f'groups/{_quoted(group)}')

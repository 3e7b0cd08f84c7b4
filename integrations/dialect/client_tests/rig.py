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
"""Arrays with servers for existing clients in front of them."""

import atexit
import datetime
import json
import os
import subprocess

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from tests import rig


class Served(rig.RunningArray):
    """An array, and a server in front of it."""

    def __init__(self, interface='k2'):
        super().__init__('--replication', '127.0.0.1:0')
        self._interface = interface
        self._server = None
        self.address = ''
        # What this array calls the other one.
        self.peer_name = ''
        self.operator = self.ask('POST', 'tokens', {
            'name': 'client', 'role': 'operator'})['secret']

    def serve(self, *peers):
        """Starts the server, or starts it again at its address."""
        program = os.environ.get('ASHLAR_DIALECT')
        if not program:
            raise RuntimeError('ASHLAR_DIALECT must name the server; '
                               '"cargo xtask integrations dialect" sets it')
        names = {it: os.path.join(self.folder, 'server-' + it)
                 for it in ('pem', 'key', 'peers')}
        if not os.path.exists(names['pem']):
            make_certificate(names['pem'], names['key'])
        with open(names['peers'], 'w') as file:
            json.dump(list(peers), file)
        log = None if os.environ.get('ASHLARD_LOG') else subprocess.DEVNULL
        words = [program, self._interface, '--array', self.url,
                 '--array-certificate', self.certificate,
                 '--listen', self.address or '127.0.0.1:0',
                 '--tls-certificate', names['pem'],
                 '--tls-key', names['key']]
        if self._interface == 'k2':
            words += ['--peers', names['peers'], '--failover-patience', '20s']
        self._server = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, text=True)
        atexit.register(self.end_server)
        line = self._server.stdout.readline()
        if not line:
            raise RuntimeError('the server ended before it was ready')
        self.address = line.split('//')[1].strip()

    def end_server(self):
        if self._server and self._server.poll() is None:
            self._server.terminate()
            self._server.wait()
            self._server.stdout.close()

    def stop(self):
        self.end_server()
        super().stop()

    def kill(self):
        """The loss of the array and of what serves it."""
        self.end_server()
        self._process.kill()
        self._process.wait()

    def as_peer(self, name):
        """How another array's server knows this one."""
        token = os.path.join(self.folder, 'peer-token')
        with open(token, 'w') as file:
            file.write(self.token)
        return {'remote_array': name, 'management_host': self.address,
                'array': self.url, 'certificate': self.certificate,
                'token_file': token}


def pair():
    """Two arrays that are paired, with servers that know each other."""
    first, second = Served(), Served()
    key = second.ask('POST', 'pairing-keys')['key']
    first.ask('POST', 'remote-arrays', {
        'address': second.ready['replication'], 'key': key, 'name': 'second'})
    first.serve()
    second.serve()
    other = second.ask('GET', 'remote-arrays')['items'][0]['name']
    first.end_server()
    second.end_server()
    first.peer_name, second.peer_name = 'second', other
    first.serve(second.as_peer('second'))
    second.serve(first.as_peer(other))
    return first, second


def make_certificate(path, key_path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, 'array')])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .sign(key, hashes.SHA256()))
    with open(path, 'wb') as file:
        file.write(made.public_bytes(serialization.Encoding.PEM))
    with open(key_path, 'wb') as file:
        file.write(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()))

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
"""A live array on loopback for tests."""

import atexit
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any

import requests


class RunningArray(object):
    """The real daemon in a folder of its own, gone with this process."""

    def __init__(self, *options):
        program = os.environ.get('ASHLARD')
        if not program:
            raise RuntimeError('ASHLARD must name the daemon; '
                               '"cargo xtask integrations cinder" sets it')
        self.folder = tempfile.mkdtemp(prefix='ashlar-cinder-')
        log = None if os.environ.get('ASHLARD_LOG') else subprocess.DEVNULL
        words = [program, '--data', self.folder,
                 '--iscsi', '127.0.0.1:0,127.0.0.1:0', '--api', '127.0.0.1:0',
                 '--drives', '6', '--drive-size', '1GiB', *options]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log)
        atexit.register(self.stop)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError('ashlard ended before it was ready; '
                               'ASHLARD_LOG=1 shows why')
        self.ready = json.loads(line)
        with open(os.path.join(self.folder, 'api.json')) as file:
            access = json.load(file)
        self.url, self.token = access['url'], access['token']
        self.port = int(self.url.rsplit(':', 1)[1])
        self.certificate = os.path.join(self.folder, 'tls.pem')

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Asks the API, which must agree."""
        answer = requests.request(
            method, f'{self.url}/api/v1/{path}', json=body,
            headers={'Authorization': f'Bearer {self.token}'}, timeout=60)
        if not answer.ok:
            raise RuntimeError(f'{method} {path}: {answer.text}')
        return answer.json() if answer.content else None

    def io(self, initiator: str, lun: int, *commands: str) -> bool:
        """Whether qemu-io's commands succeed on a LUN."""
        image = (f'driver=iscsi,transport=tcp,'
                 f'portal={self.ready["portals"][0]},'
                 f'target={self.ready["target_iqn"]},lun={lun},'
                 f'initiator-name={initiator}')
        words = ['qemu-io', '--image-opts', image]
        for command in commands:
            words += ['-c', command]
        done = subprocess.run(words, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

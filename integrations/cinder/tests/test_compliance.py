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
"""Cinder's compliance suite, with our driver in its list.

The suite looks for drivers below the working directory, which has to be the
folder that Cinder is installed in, and takes along those that are imported.
"""

import unittest

import ashlar_cinder.driver  # noqa: registers the driver

from cinder.tests.compliance import test_volume_drivers as suite
from cinder.tests.compliance.test_volume_drivers import *  # noqa


class ListTest(unittest.TestCase):

    def test_our_driver_is_in_the_list(self):
        names = [it.class_fqn for it in suite.VOLUME_DRIVERS]
        self.assertIn('ashlar_cinder.driver.ISCSIDriver', names)
        self.assertGreater(len(names), 50)

# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Documentation of what all modules have."""

from __future__ import annotations


class ModuleDocFragment(object):

    DOCUMENTATION = r"""
options:
  url:
    description:
      - Address of the array's API, such as V(https://10.0.0.5).
      - If not set, the environment variable E(ASHLAR_URL) is used.
    type: str
  token:
    description:
      - API token of the array. C(ashlar token create) makes one.
      - If not set, the environment variable E(ASHLAR_TOKEN) is used.
    type: str
  ca_path:
    description:
      - File with the array's certificate, or with those of the authorities that sign it.
      - If not set, the environment variable E(ASHLAR_CA) is used.
    type: path
  validate_certs:
    description: Whether the array's certificate must be trusted.
    type: bool
    default: true
  timeout:
    description: Seconds that a request may take.
    type: int
    default: 60
requirements:
  - An array that serves driver API 1.
"""

    # Of modules that make and remove something.
    NOUN = r"""
attributes:
  check_mode:
    support: full
    description: Says what would change, and changes nothing.
  diff_mode:
    support: full
    description: Shows what is different before and after.
"""

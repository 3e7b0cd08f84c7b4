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
    description: Returns what would change, and changes nothing.
  diff_mode:
    support: full
    description: Shows what is different before and after.
"""

    # Of volumes and volume groups.
    VOLUME_SETTINGS = r"""
options:
  limits:
    description: QoS limits. What is left out is kept; V(-1) is unlimited.
    type: dict
    suboptions:
      iops:
        description: Commands per second.
        type: int
      iops_burst:
        description: Burst in commands.
        type: int
      bandwidth:
        description: Bytes per second, with or without a unit.
        type: str
      bandwidth_burst:
        description: Burst in bytes, with or without a unit.
        type: str
  policy:
    description: Data reduction settings for new writes. What is left out is kept.
    type: dict
    suboptions:
      dedup:
        description: Deduplication.
        type: bool
      compression:
        description: Compression level.
        type: str
        choices: ["off", fast, high, adaptive]
      verify:
        description: Byte-by-byte verification of duplicates with equal fingerprints.
        type: bool
"""

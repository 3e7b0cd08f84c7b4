#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Settings of the array."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: settings
short_description: Settings of the array
version_added: "0.1.0"
description:
  - Changes settings of the array. What is left out is kept.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  name:
    description: Display name of the array.
    type: str
  recycle_bin_seconds:
    description: Recycle bin retention in seconds.
    type: int
  unmap_throttle:
    description: UNMAP throttle level, 0 (off) to 9.
    type: int
  scrub_every_seconds:
    description: Interval between scrubs in seconds; 0 for no scheduled scrubs.
    type: int
  max_retention_lock_seconds:
    description: Longest time for which a retention lock can be set, in seconds.
    type: int
  time_zone:
    description: Time zone of snapshot schedules, a name of the IANA database.
    type: str
"""

EXAMPLES = r"""
- name: Three days in the recycle bin
  ashlar.array.settings:
    recycle_bin_seconds: 259200
"""

RETURN = r"""
object:
  description: The object as the array has it afterwards; in check mode as it would be.
  returned: unless it is absent
  type: dict
id:
  description: Its permanent identifier.
  returned: if it has one
  type: str
"""

from ansible_collections.ashlar.array.plugins.module_utils.array import Change, different, given, main, merged, shown

FIELDS = (
    "name",
    "recycle_bin_seconds",
    "unmap_throttle",
    "scrub_every_seconds",
    "max_retention_lock_seconds",
    "time_zone",
)


def run(module, array):
    change = Change(module, array, "settings")
    current = array.request("GET", "settings")
    wanted = given(dict((key, module.params[key]) for key in FIELDS))
    needed = different(current, wanted)
    after = merged(current, needed)
    result = array.request("PATCH", "settings", needed) if needed and not module.check_mode else after
    change.done(bool(needed), shown(current, needed), shown(after, needed), result)


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            name=dict(type="str"),
            recycle_bin_seconds=dict(type="int"),
            unmap_throttle=dict(type="int"),
            scrub_every_seconds=dict(type="int"),
            max_retention_lock_seconds=dict(type="int"),
            time_zone=dict(type="str"),
        ),
    )

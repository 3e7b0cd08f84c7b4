#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Drives."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: drive
short_description: Drives
version_added: "0.1.0"
description:
  - Adds drives to the array, and moves everything off drives that are to be removed.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  path:
    description: Absolute path of the block device or file on the array's machine, preferably under C(/dev/disk/by-id).
    type: str
    required: true
  force:
    description: Overwrite a block device that is not blank. Its contents are destroyed. A drive of an array is never overwritten.
    type: bool
    default: false
  state:
    description: V(present) adds it unless the array uses it. V(absent) starts an evacuation unless there is one, after which it can be pulled.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: A new drive
  ashlar.array.drive:
    path: /dev/disk/by-id/nvme-EXAMPLE_0001
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

from ansible_collections.ashlar.array.plugins.module_utils.array import Change, main


def run(module, array):
    params = module.params
    change = Change(module, array, "drives")
    found = [it for it in array.items("drives") if it["path"] == params["path"] and it["state"] != "failed"]
    current = found[0] if found else None
    if params["state"] == "absent":
        if current is None or current["state"] == "evacuating":
            change.done(False, {}, {}, current)
        if not module.check_mode:
            array.request("POST", "drives/%d/evacuate" % current["slot"])
        change.done(True, dict(state=current["state"]), dict(state="evacuating"), dict(current, state="evacuating"))
    if current is not None:
        change.done(False, {}, {}, current)
    body = dict(path=params["path"], force=params["force"])
    change.done(True, {}, body, body if module.check_mode else array.request("POST", "drives", body))


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            path=dict(type="str", required=True),
            force=dict(type="bool", default=False),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
    )

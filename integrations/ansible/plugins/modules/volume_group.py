#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Volume groups."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: volume_group
short_description: Volume groups
version_added: "0.1.0"
description:
  - Creates, changes and deletes volume groups with their quotas, limits and data reduction settings.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
  - ashlar.array.array.volume_settings
options:
  name:
    description: Name, or id of an existing group.
    type: str
    required: true
  soft_quota:
    description: Mapped bytes above which operators and hosts are warned, such as V(10TiB); V(-1) for none.
    type: str
  hard_quota:
    description: Mapped bytes above which writes that need new space fail; V(-1) for none.
    type: str
  labels:
    description: Labels to set. Other labels are kept.
    type: dict
  state:
    description: Whether it exists.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: A group with a quota
  ashlar.array.volume_group:
    name: gold
    soft_quota: 8TiB
    hard_quota: 10TiB
    limits:
      iops: 100000
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

from ansible_collections.ashlar.array.plugins.module_utils.array import (
    LIMITS,
    POLICY,
    Change,
    given,
    limits,
    main,
    quoted,
    size_bytes,
)


def run(module, array):
    params = module.params
    change = Change(module, array, "groups")
    current = array.find("groups/" + quoted(params["name"]))
    if params["state"] == "absent":
        change.absent(current)
    wanted = {}
    for key in ("soft_quota", "hard_quota"):
        if params[key] is not None:
            wanted[key] = None if params[key] == "-1" else size_bytes(params[key])
    if params["labels"] is not None:
        wanted["labels"] = params["labels"]
    if params["policy"] is not None:
        wanted["policy"] = given(params["policy"])
    if params["limits"] is not None:
        wanted["limits"] = limits(params)
    change.ensure(params["name"], current, wanted)


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            name=dict(type="str", required=True),
            soft_quota=dict(type="str"),
            hard_quota=dict(type="str"),
            limits=LIMITS,
            policy=POLICY,
            labels=dict(type="dict"),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
    )

#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Host groups."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_group
short_description: Host groups
version_added: "0.1.0"
description:
  - Creates, changes and deletes groups of hosts that share connections.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  name:
    description: Name, or id of an existing host group.
    type: str
    required: true
  hosts:
    description: All hosts of the group.
    type: list
    elements: str
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
- name: A cluster
  ashlar.array.host_group:
    name: cluster
    hosts: [node1, node2]
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

from ansible_collections.ashlar.array.plugins.module_utils.array import Change, main, quoted


def run(module, array):
    params = module.params
    change = Change(module, array, "host-groups")
    current = array.find("host-groups/" + quoted(params["name"]))
    if params["state"] == "absent":
        change.absent(current)
    wanted = {}
    if params["labels"] is not None:
        wanted["labels"] = params["labels"]
    if params["hosts"] is not None:
        same = current is not None and sorted(params["hosts"]) == sorted(current["hosts"])
        wanted["hosts"] = current["hosts"] if same else params["hosts"]
    change.ensure(params["name"], current, wanted)


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            name=dict(type="str", required=True),
            hosts=dict(type="list", elements="str"),
            labels=dict(type="dict"),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
    )

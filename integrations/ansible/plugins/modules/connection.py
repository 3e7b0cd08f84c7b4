#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Connections of volumes to hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: connection
short_description: Connections of volumes to hosts
version_added: "0.1.0"
description:
  - Connects volumes and snapshots to hosts and host groups, and disconnects them.
  - The answer has all that a host needs to attach the volume.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  volume:
    description: Volume or snapshot.
    type: str
    required: true
  host:
    description: Host.
    type: str
  host_group:
    description: Host group.
    type: str
  lun:
    description: Logical unit number. By default the lowest free one.
    type: int
  read_only:
    description: Refuse writes.
    type: bool
    default: false
  state:
    description: Whether it exists.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: A volume for a cluster
  ashlar.array.connection:
    volume: datastore1
    host_group: cluster
    lun: 10
  register: attachment
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

from ansible_collections.ashlar.array.plugins.module_utils.array import ArrayError, Change, main, quoted


def run(module, array):
    params = module.params
    change = Change(module, array, "connections")
    peer = params["host"] if params["host"] else "host-groups/" + quoted(params["host_group"])
    path = "connections/%s/%s" % (quoted(params["volume"]), quoted(peer) if params["host"] else peer)
    current = array.find(path)
    if params["state"] == "absent":
        change.absent(current, path=path)
    wanted = dict(read_only=params["read_only"])
    if params["lun"] is not None:
        wanted["lun"] = params["lun"]
    if current is not None:
        for key, value in wanted.items():
            if current[key] != value:
                raise ArrayError(
                    "%s is connected with %s %s, not %s: disconnect it first, on the host as well"
                    % (params["volume"], key, current[key], value),
                    "differs",
                    key,
                )
        change.done(False, {}, {}, current)
    body = dict(wanted, volume=params["volume"])
    body.update((key, params[key]) for key in ("host", "host_group") if params[key])
    change.done(True, {}, body, body if module.check_mode else array.request("POST", "connections", body))


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            volume=dict(type="str", required=True),
            host=dict(type="str"),
            host_group=dict(type="str"),
            lun=dict(type="int"),
            read_only=dict(type="bool", default=False),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
        required_one_of=[("host", "host_group")],
        mutually_exclusive=[("host", "host_group")],
    )

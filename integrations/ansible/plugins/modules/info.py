#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Returns the objects of an array."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: info
short_description: Return the objects of an array
version_added: "0.1.0"
description:
  - Reads lists and figures of an array. Changes nothing.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  subset:
    description: What to read.
    type: list
    elements: str
    choices:
      - alerts
      - array
      - connections
      - drives
      - groups
      - host-groups
      - hosts
      - jobs
      - notification-targets
      - recycle-bin
      - schedules
      - settings
      - snapshots
      - status
      - tokens
      - users
      - volumes
    default: [status]
  filter:
    description: Comma-separated conditions for lists, such as V(name=web*,size>=1073741824).
    type: str
  label:
    description: Comma-separated conditions on labels for lists, such as V(application=billing).
    type: str
"""

EXAMPLES = r"""
- name: Volumes of an application
  ashlar.array.info:
    subset: [volumes]
    label: application=billing
  register: found
"""

RETURN = r"""
info:
  description: What was asked for, by the names of O(subset); lists have all items.
  returned: success
  type: dict
"""

from ansible_collections.ashlar.array.plugins.module_utils.array import main, quoted

# Those that are one object, not a list.
SINGLE = ("array", "settings", "status")
LABELLED = ("groups", "host-groups", "hosts", "snapshots", "volumes")


def run(module, array):
    params = module.params
    result = {}
    for name in params["subset"]:
        if name in SINGLE:
            result[name] = array.request("GET", name)
            continue
        query = []
        if params["filter"]:
            query.append("filter=" + quoted(params["filter"]))
        if params["label"] and name in LABELLED:
            query.append("label=" + quoted(params["label"]))
        result[name] = array.items(name + ("?" + "&".join(query) if query else ""))
    module.exit_json(changed=False, info=result)


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            subset=dict(
                type="list",
                elements="str",
                default=["status"],
                choices=[
                    "alerts",
                    "array",
                    "connections",
                    "drives",
                    "groups",
                    "host-groups",
                    "hosts",
                    "jobs",
                    "notification-targets",
                    "recycle-bin",
                    "schedules",
                    "settings",
                    "snapshots",
                    "status",
                    "tokens",
                    "users",
                    "volumes",
                ],
            ),
            filter=dict(type="str"),
            label=dict(type="str"),
        ),
    )

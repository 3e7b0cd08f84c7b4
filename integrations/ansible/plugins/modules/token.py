#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""API tokens."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: token
short_description: API tokens
version_added: "0.1.0"
description:
  - Creates and deletes API tokens. The secret is returned once, when the token is created.
  - A token that exists is kept; its role and expiry can't be changed.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  name:
    description: Name.
    type: str
    required: true
  user:
    description: Owner; by default the user of the token that the module uses.
    type: str
  role:
    description: Role; by default that of the owner.
    type: str
    choices: [viewer, operator, admin]
  expires:
    description: Expiry time, such as V(2030-12-31T00:00:00Z); by default never.
    type: str
  state:
    description: Whether it exists.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: A token for monitoring
  ashlar.array.token:
    name: prometheus
    role: viewer
  register: token
  no_log: true
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
    change = Change(module, array, "tokens")
    found = [it for it in array.items("tokens") if it["name"] == params["name"]]
    current = found[0] if found else None
    if params["state"] == "absent":
        change.absent(current)
    only_new = dict((key, params[key]) for key in ("user", "role", "expires") if params[key] is not None)
    change.ensure(params["name"], current, {}, only_new, fixed=("user", "role"))


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            name=dict(type="str", required=True),
            user=dict(type="str"),
            role=dict(type="str", choices=["viewer", "operator", "admin"]),
            expires=dict(type="str"),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
    )

#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Users."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: user
short_description: Users
version_added: "0.1.0"
description:
  - Creates, changes and deletes users of the array. Needs the role admin.
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
  role:
    description: Role. Needed for a new user.
    type: str
    choices: [viewer, operator, admin]
  password:
    description: Password, 8 to 256 characters. Needed for a new user.
    type: str
  update_password:
    description: Passwords are never returned, so they can't be compared. V(on_create) sets them with a new user, V(always) each time.
    type: str
    choices: [always, on_create]
    default: on_create
  state:
    description: Whether it exists.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: An operator
  ashlar.array.user:
    name: alice
    role: operator
    password: "{{ alice_password }}"
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
    change = Change(module, array, "users")
    current = array.find("users/" + quoted(params["name"]))
    if params["state"] == "absent":
        change.absent(current)
    wanted = {}
    if params["role"] is not None:
        wanted["role"] = params["role"]
    if params["password"] is not None and (current is None or params["update_password"] == "always"):
        wanted["password"] = params["password"]
    if current is None and not (params["role"] and params["password"]):
        raise ValueError("a new user needs a role and a password")
    change.ensure(params["name"], current, wanted)


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            name=dict(type="str", required=True),
            role=dict(type="str", choices=["viewer", "operator", "admin"]),
            password=dict(type="str", no_log=True),
            update_password=dict(type="str", choices=["always", "on_create"], default="on_create", no_log=False),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
    )

#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host
short_description: Hosts
version_added: "0.1.0"
description:
  - Creates, changes and deletes hosts with their iSCSI initiators.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  name:
    description: Name, or id of an existing host.
    type: str
    required: true
  initiators:
    description: All iSCSI initiator names. Needed for a new host.
    type: list
    elements: str
  chap:
    description: CHAP credentials that the host must present.
    type: dict
    suboptions:
      user:
        description: CHAP user.
        type: str
        required: true
      secret:
        description: CHAP secret, 12 to 255 characters.
        type: str
        required: true
  mutual:
    description: CHAP credentials that the array presents (mutual CHAP).
    type: dict
    suboptions:
      user:
        description: CHAP user.
        type: str
        required: true
      secret:
        description: CHAP secret, 12 to 255 characters.
        type: str
        required: true
  update_secret:
    description: Secrets are never returned, so they can't be compared. V(on_create) sets them with a new host or another user, V(always) each time.
    type: str
    choices: [always, on_create]
    default: on_create
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
- name: A host
  ashlar.array.host:
    name: web1
    initiators: [iqn.1993-08.org.debian:01:web1]
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
    change = Change(module, array, "hosts")
    current = array.find("hosts/" + quoted(params["name"]))
    if params["state"] == "absent":
        change.absent(current)
    wanted = {}
    if params["labels"] is not None:
        wanted["labels"] = params["labels"]
    if params["initiators"] is not None:
        names = [it.lower() for it in params["initiators"]]
        same = current is not None and sorted(names) == sorted(current["initiators"])
        wanted["initiators"] = current["initiators"] if same else names
    if current is None and not params["initiators"]:
        raise ValueError("a new host needs initiators")
    for key, user in (("chap", "chap_user"), ("mutual", "mutual_user")):
        credentials = params[key]
        if credentials is None:
            continue
        if current is None or params["update_secret"] == "always" or current.get(user) != credentials["user"]:
            wanted[key] = credentials
    change.ensure(params["name"], current, wanted)


if __name__ == "__main__":
    chap = dict(user=dict(type="str", required=True), secret=dict(type="str", required=True, no_log=True))
    main(
        run,
        argument_spec=dict(
            name=dict(type="str", required=True),
            initiators=dict(type="list", elements="str"),
            chap=dict(type="dict", options=chap),
            mutual=dict(type="dict", options=chap),
            update_secret=dict(type="str", choices=["always", "on_create"], default="on_create", no_log=False),
            labels=dict(type="dict"),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
    )

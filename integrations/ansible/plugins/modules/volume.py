#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Volumes."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: volume
short_description: Volumes
version_added: "0.1.0"
description:
  - Creates, changes, clones and deletes volumes.
  - Deleted volumes go to the recycle bin of the array.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
  - ashlar.array.array.volume_settings
options:
  name:
    description: Name, or id of an existing volume.
    type: str
    required: true
  new_name:
    description: Name to give it. If there is no volume O(name) but one of this name, that one is meant.
    type: str
  size:
    description: Size, such as V(10GiB) or V(1.5T). Needed for a new volume without O(source). A clone may be larger than its source.
    type: str
  block_size:
    description: Logical block length in bytes of a new volume.
    type: int
    choices: [512, 4096]
  source:
    description: Volume or snapshot to clone for a new volume. An existing volume stays as it is.
    type: str
  group:
    description: Volume group; an empty text for none.
    type: str
  shrink:
    description: Allow a smaller size. Data after the new end is destroyed.
    type: bool
    default: false
  read_only:
    description: Whether writes are refused.
    type: bool
  scsi2_reservations:
    description: Whether SCSI-2 RESERVE and RELEASE are supported.
    type: bool
  eradicate:
    description: Eradicate the data of a deleted volume instead of moving it to the recycle bin. Needs the role admin.
    type: bool
    default: false
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
- name: A volume with limits
  ashlar.array.volume:
    name: database
    size: 2TiB
    limits:
      iops: 20000
      bandwidth: 500MiB
    labels:
      application: billing

- name: A clone for tests
  ashlar.array.volume:
    name: database-test
    source: database.before-upgrade

- name: Move it to the recycle bin
  ashlar.array.volume:
    name: database-test
    state: absent
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
    change = Change(module, array, "volumes")
    current = array.find("volumes/" + quoted(params["name"]))
    if current is None and params["new_name"]:
        current = array.find("volumes/" + quoted(params["new_name"]))
    if params["state"] == "absent":
        change.absent(current, "?eradicate=true" if params["eradicate"] else "")
    wanted = {}
    for key in ("read_only", "scsi2_reservations", "labels"):
        if params[key] is not None:
            wanted[key] = params[key]
    if params["group"] is not None:
        wanted["group"] = params["group"] or None
    if params["policy"] is not None:
        wanted["policy"] = given(params["policy"])
    if params["limits"] is not None:
        wanted["limits"] = limits(params)
    if params["size"] is not None:
        wanted["size"] = size_bytes(params["size"])
    if current is not None and params["new_name"]:
        wanted["name"] = params["new_name"]
    only_new = {}
    if params["block_size"] is not None:
        only_new["block_size"] = params["block_size"]
    if current is None and params["source"]:
        only_new["source"] = params["source"]
    if current is None and not params["source"] and "size" not in wanted:
        raise ValueError("a new volume needs a size or a source")
    if current is not None and wanted.get("size", current["size"]) < current["size"] and not params["shrink"]:
        raise ValueError("%s has %d bytes; set shrink to make it smaller" % (current["name"], current["size"]))
    change.ensure(
        params["new_name"] if current is None and params["new_name"] else params["name"],
        current,
        wanted,
        only_new,
        fixed=("block_size",),
        alone=("size", "read_only"),
        create=lambda body: create(array, body, params["shrink"]),
    )


def create(array, body, shrink):
    """Creates the volume, and then gives it what the array only changes."""
    first = dict((key, body[key]) for key in ("name", "block_size", "source", "group", "labels") if key in body)
    if "source" not in body:
        first["size"] = body["size"]
    if first.get("group", "") is None:
        del first["group"]
    made = array.request("POST", "volumes", first)
    path = "volumes/" + made["id"]
    if body.get("size", made["size"]) != made["size"]:
        made = array.request("PATCH", path, dict(size=body["size"], shrink=shrink))
    later = dict((key, body[key]) for key in ("policy", "limits", "scsi2_reservations") if key in body)
    if later:
        made = array.request("PATCH", path, later)
    if body.get("read_only"):
        made = array.request("PATCH", path, dict(read_only=True))
    return made


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            name=dict(type="str", required=True),
            new_name=dict(type="str"),
            size=dict(type="str"),
            block_size=dict(type="int", choices=[512, 4096]),
            source=dict(type="str"),
            group=dict(type="str"),
            shrink=dict(type="bool", default=False),
            read_only=dict(type="bool"),
            scsi2_reservations=dict(type="bool"),
            eradicate=dict(type="bool", default=False),
            limits=LIMITS,
            policy=POLICY,
            labels=dict(type="dict"),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
    )

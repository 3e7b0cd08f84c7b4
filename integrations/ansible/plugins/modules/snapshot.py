#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Snapshots."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: snapshot
short_description: Snapshots
version_added: "0.1.0"
description:
  - Takes, changes and deletes snapshots of one volume, of a volume group, or of several volumes at one moment.
  - A snapshot is named VOLUME.SUFFIX; a snapshot that exists under this name is kept.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  volumes:
    description: Volumes to take snapshots of at one moment.
    type: list
    elements: str
  group:
    description: Volume group, all volumes of which are taken at one moment.
    type: str
  suffix:
    description: Suffix of the names.
    type: str
    required: true
  retain_until:
    description: Retention lock, a time such as V(2030-12-31T00:00:00Z), until which they can't be deleted. It can only be moved to later times.
    type: str
  eradicate:
    description: Eradicate the data of deleted snapshots instead of moving them to the recycle bin. Needs the role admin.
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
- name: Both volumes of the database at one moment
  ashlar.array.snapshot:
    volumes: [database, database-log]
    suffix: before-upgrade

- name: Delete it
  ashlar.array.snapshot:
    volumes: [database, database-log]
    suffix: before-upgrade
    state: absent
"""

RETURN = r"""
objects:
  description: The snapshots, in the order of the volumes.
  returned: success
  type: list
  elements: dict
"""

from ansible_collections.ashlar.array.plugins.module_utils.array import ArrayError, different, main, quoted


def run(module, array):
    params = module.params
    volumes = params["volumes"] or array.request("GET", "groups/" + quoted(params["group"]))["volumes"]
    there = [array.find("snapshots/" + quoted("%s.%s" % (volume, params["suffix"]))) for volume in volumes]
    if params["state"] == "absent":
        absent(module, array, [it for it in there if it])
    if not any(there):
        take(module, array, volumes)
    for volume, snapshot in zip(volumes, there):
        if snapshot is None:
            raise ArrayError(
                "%s has no snapshot %s, but other volumes have: delete those first, or use another suffix"
                % (volume, params["suffix"]),
                "differs",
                "volumes",
            )
    keep(module, array, there)


def absent(module, array, there):
    query = "?eradicate=true" if module.params["eradicate"] else ""
    if not module.check_mode:
        for snapshot in there:
            array.delete("snapshots/%s%s" % (snapshot["id"], query))
    names = [it["name"] for it in there]
    module.exit_json(changed=bool(there), diff=dict(before=dict(snapshots=names), after=dict(snapshots=[])), objects=[])


def take(module, array, volumes):
    params = module.params
    names = ["%s.%s" % (volume, params["suffix"]) for volume in volumes]
    body = dict(sources=[dict(volume=it) for it in volumes], suffix=params["suffix"])
    for key in ("retain_until", "labels"):
        if params[key] is not None:
            body[key] = params[key]
    objects = [dict(name=it) for it in names] if module.check_mode else array.request("POST", "snapshots", body)["items"]
    module.exit_json(changed=True, diff=dict(before=dict(snapshots=[]), after=dict(snapshots=names)), objects=objects)


def keep(module, array, there):
    """Brings lock and labels of snapshots that exist to what is wanted."""
    wanted = dict((key, module.params[key]) for key in ("retain_until", "labels") if module.params[key] is not None)
    before, after, objects = {}, {}, []
    for snapshot in there:
        change = different(snapshot, wanted)
        for key in change:
            before.setdefault(snapshot["name"], {})[key] = snapshot.get(key)
            after.setdefault(snapshot["name"], {})[key] = change[key]
            if not module.check_mode:
                snapshot = array.request("PATCH", "snapshots/" + snapshot["id"], {key: change[key]})
        objects.append(snapshot)
    module.exit_json(changed=bool(after), diff=dict(before=before, after=after), objects=objects)


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            volumes=dict(type="list", elements="str"),
            group=dict(type="str"),
            suffix=dict(type="str", required=True),
            retain_until=dict(type="str"),
            eradicate=dict(type="bool", default=False),
            labels=dict(type="dict"),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
        required_one_of=[("volumes", "group")],
        mutually_exclusive=[("volumes", "group")],
    )

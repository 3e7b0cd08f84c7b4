#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Restoring volumes."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: restore
short_description: Restoring volumes
version_added: "0.1.0"
description:
  - Gives a volume the contents and the size of a snapshot or of another volume.
  - The state before is kept as a snapshot VOLUME.SAFETY_SNAPSHOT. If that exists already, the volume has been restored by an earlier run and nothing is done.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  volume:
    description: Volume to restore. Its contents are lost but for the safety snapshot.
    type: str
    required: true
  source:
    description: Snapshot or volume.
    type: str
    required: true
  safety_snapshot:
    description: Suffix of the snapshot of the state before.
    type: str
    required: true
  keep_size:
    description: Keep the size of the volume if the source is smaller.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Back to the state before the upgrade
  ashlar.array.restore:
    volume: database
    source: database.before-upgrade
    safety_snapshot: failed-upgrade
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

from ansible_collections.ashlar.array.plugins.module_utils.array import main, quoted


def run(module, array):
    params = module.params
    volume = array.request("GET", "volumes/" + quoted(params["volume"]))
    source = params["source"]
    if array.find("snapshots/" + quoted(source)) is None:
        array.request("GET", "volumes/" + quoted(source))
    safety = "%s.%s" % (volume["name"], params["safety_snapshot"])
    if array.find("snapshots/" + quoted(safety)):
        module.exit_json(changed=False, object=volume, id=volume["id"])
    if not module.check_mode:
        body = dict(source=source, safety_snapshot=params["safety_snapshot"], keep_size=params["keep_size"])
        volume = array.request("POST", "volumes/%s/restore" % volume["id"], body)
    module.exit_json(changed=True, object=volume, id=volume["id"], diff=dict(before="", after="contents of %s" % source))


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            volume=dict(type="str", required=True),
            source=dict(type="str", required=True),
            safety_snapshot=dict(type="str", required=True),
            keep_size=dict(type="bool", default=False),
        ),
    )

#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Snapshot schedules."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: schedule
short_description: Snapshot schedules
version_added: "0.1.0"
description:
  - Creates, changes and deletes schedules that take snapshots and retain some of them.
author:
  - The Ashlar authors (@ashlar)
extends_documentation_fragment:
  - ashlar.array.array
  - ashlar.array.array.noun
options:
  name:
    description: Name, or id of an existing schedule.
    type: str
    required: true
  volume:
    description: Volume to snapshot. Fixed once the schedule exists.
    type: str
  group:
    description: Volume group to snapshot, consistent across its volumes. Fixed once the schedule exists.
    type: str
  rules:
    description: All rules. Needed for a new schedule.
    type: list
    elements: dict
    suboptions:
      when:
        description: V(hourly), V(daily), V(weekly), V(monthly), V(yearly), or a cron expression of five fields, in the time zone of the array.
        type: str
        required: true
      keep:
        description: Number of snapshots to retain.
        type: int
        required: true
  immutable_seconds:
    description: Retention lock of its snapshots in seconds.
    type: int
  enabled:
    description: Whether it is active.
    type: bool
  state:
    description: Whether it exists.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Hourly for two days, daily for a month
  ashlar.array.schedule:
    name: gold
    group: gold
    rules:
      - {when: hourly, keep: 48}
      - {when: daily, keep: 30}
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
    change = Change(module, array, "schedules")
    current = array.find("schedules/" + quoted(params["name"]))
    if params["state"] == "absent":
        change.absent(current)
    wanted = dict((key, params[key]) for key in ("rules", "immutable_seconds", "enabled") if params[key] is not None)
    only_new = dict((key, params[key]) for key in ("volume", "group") if params[key] is not None)
    if current is None and ("rules" not in wanted or not only_new):
        raise ValueError("a new schedule needs rules, and a volume or a group")
    change.ensure(params["name"], current, wanted, only_new, fixed=("volume", "group"))


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            name=dict(type="str", required=True),
            volume=dict(type="str"),
            group=dict(type="str"),
            rules=dict(
                type="list",
                elements="dict",
                options=dict(when=dict(type="str", required=True), keep=dict(type="int", required=True)),
            ),
            immutable_seconds=dict(type="int"),
            enabled=dict(type="bool"),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
        mutually_exclusive=[("volume", "group")],
    )

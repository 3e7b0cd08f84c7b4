#!/usr/bin/python
# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Alert notification targets."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: notification_target
short_description: Alert notification targets
version_added: "0.1.0"
description:
  - Creates, changes and deletes targets that alerts are sent to.
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
  destination:
    description:
      - Where to send. V(kind) is V(webhook), V(syslog), V(email) or V(snmp); the other keys are those of the array's API.
      - The array shows the C(url) of a webhook up to its host only. Another one at the same host is set with O(update_secret=always).
      - Needed for a new target.
    type: dict
  secret:
    description: Signature key, password, passphrase or community, depending on the destination.
    type: str
  update_secret:
    description: Secrets are never returned, so they can't be compared. V(on_create) sets it with a new target or another destination, V(always) each time.
    type: str
    choices: [always, on_create]
    default: on_create
  severity:
    description: Minimum severity of alerts and events to send.
    type: str
    choices: [info, warning, critical]
  content:
    description: What is sent. All but V(alerts) is for syslog only.
    type: list
    elements: str
    choices: [alerts, events, audit, statistics]
  enabled:
    description: Whether notifications are sent.
    type: bool
  state:
    description: Whether it exists.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Alerts to a webhook
  ashlar.array.notification_target:
    name: chat
    destination:
      kind: webhook
      url: https://chat.example.com/hook
    severity: warning
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

import re

from ansible_collections.ashlar.array.plugins.module_utils.array import Change, different, main, quoted

def shown(destination):
    # As the array returns it: user, password, path and query of a URL may be secrets.
    url = destination.get("url")
    if not isinstance(url, str) or "://" not in url:
        return destination
    scheme, rest = url.split("://", 1)
    host = re.split("[/?#]", rest)[0].split("@")[-1]
    return dict(destination, url=scheme + "://" + host + (u"/\u2026" if len(rest) > len(host) else ""))


# In the order in which the array returns them.
CONTENT = ["alerts", "events", "audit", "statistics"]


def run(module, array):
    params = module.params
    change = Change(module, array, "notification-targets")
    current = array.find("notification-targets/" + quoted(params["name"]))
    if params["state"] == "absent":
        change.absent(current)
    wanted = dict((key, params[key]) for key in ("severity", "enabled") if params[key] is not None)
    if params["content"] is not None:
        wanted["content"] = [it for it in CONTENT if it in params["content"]]
    moved = params["destination"] is not None and (
        current is None or bool(different(current["destination"], shown(params["destination"])))
        or params["update_secret"] == "always"
    )
    if moved:
        wanted["destination"] = params["destination"]
    if params["secret"] is not None and (moved or params["update_secret"] == "always"):
        wanted["secret"] = params["secret"]
    if current is None and not params["destination"]:
        raise ValueError("a new notification target needs a destination")
    change.ensure(params["name"], current, wanted)


if __name__ == "__main__":
    main(
        run,
        argument_spec=dict(
            name=dict(type="str", required=True),
            destination=dict(type="dict"),
            secret=dict(type="str", no_log=True),
            update_secret=dict(type="str", choices=["always", "on_create"], default="on_create", no_log=False),
            severity=dict(type="str", choices=["info", "warning", "critical"]),
            content=dict(type="list", elements="str", choices=CONTENT),
            enabled=dict(type="bool"),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
    )

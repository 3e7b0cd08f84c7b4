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
  - Creates, changes and deletes hosts with their iSCSI initiators, NQNs and WWPNs.
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
    description: All iSCSI initiator names. A new host needs a name of one of the three kinds.
    type: list
    elements: str
  nqns:
    description: All NVMe qualified names, for NVMe/TCP.
    type: list
    elements: str
  wwpns:
    description: All N_Port names, for Fibre Channel.
    type: list
    elements: str
  dhchap_secret:
    description: DH-HMAC-CHAP secret of the host for NVMe/TCP, as C(nvme gen-dhchap-key) makes it.
    type: str
  dhchap_controller_secret:
    description: DH-HMAC-CHAP secret of the array. Requires O(dhchap_secret) or a host that has one.
    type: str
  tls_psk:
    description:
      - PSK of TLS over NVMe/TCP, as C(nvme gen-tls-key) makes it. The host can connect at portals with TLS only.
    type: str
  chap:
    description: CHAP credentials that the host must present.
    type: dict
    suboptions:
      user:
        description: CHAP user.
        type: str
        required: true
      secret:
        description: CHAP secret, 12 to 255 bytes.
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
        description: CHAP secret, 12 to 255 bytes.
        type: str
        required: true
  update_secret:
    description: Secrets can't be compared. V(on_create) sets them where there was none, or with another CHAP user, V(always) each time.
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

- name: A host that uses NVMe/TCP and authenticates
  ashlar.array.host:
    name: web2
    nqns: [nqn.2014-08.org.nvmexpress:uuid:7d3b1c84-0d7c-4a4e-9a57-1d6f0c6e5a02]
    dhchap_secret: "{{ web2_dhchap_secret }}"
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


def wwpn(text):
    """A WWPN as the array writes it: pairs of digits in lower case with colons."""
    digits = text.lower().replace(":", "")
    digits = digits[2:] if digits.startswith("0x") else digits
    return ":".join(digits[at:at + 2] for at in range(0, len(digits), 2))


def run(module, array):
    params = module.params
    change = Change(module, array, "hosts")
    current = array.find("hosts/" + quoted(params["name"]))
    if params["state"] == "absent":
        change.absent(current)
    wanted = {}
    if params["labels"] is not None:
        wanted["labels"] = params["labels"]
    for key, written in (("initiators", str.lower), ("nqns", str), ("wwpns", wwpn)):
        if params[key] is not None:
            names = [written(it) for it in params[key]]
            same = current is not None and sorted(names) == sorted(current[key])
            wanted[key] = current[key] if same else names
    if current is None:
        if not any(params[key] for key in ("initiators", "nqns", "wwpns")):
            raise ValueError("a new host needs initiators, nqns or wwpns")
        wanted.setdefault("initiators", [])
    for key, user in (("chap", "chap_user"), ("mutual", "mutual_user")):
        credentials = params[key]
        if credentials is None:
            continue
        if current is None or params["update_secret"] == "always" or current.get(user) != credentials["user"]:
            wanted[key] = credentials
    secrets = (("dhchap_secret", "dhchap"), ("dhchap_controller_secret", "dhchap_controller"), ("tls_psk", "tls"))
    for key, has in secrets:
        if params[key] is not None and (current is None or params["update_secret"] == "always" or not current[has]):
            wanted[key] = params[key]
    change.ensure(params["name"], current, wanted)


if __name__ == "__main__":
    chap = dict(user=dict(type="str", required=True), secret=dict(type="str", required=True, no_log=True))
    main(
        run,
        argument_spec=dict(
            name=dict(type="str", required=True),
            initiators=dict(type="list", elements="str"),
            nqns=dict(type="list", elements="str"),
            wwpns=dict(type="list", elements="str"),
            dhchap_secret=dict(type="str", no_log=True),
            dhchap_controller_secret=dict(type="str", no_log=True),
            tls_psk=dict(type="str", no_log=True),
            chap=dict(type="dict", options=chap),
            mutual=dict(type="dict", options=chap),
            update_secret=dict(type="str", choices=["always", "on_create"], default="on_create", no_log=False),
            labels=dict(type="dict"),
            state=dict(type="str", choices=["present", "absent"], default="present"),
        ),
    )

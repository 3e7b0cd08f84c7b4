# Copyright: (c) The Ashlar authors
# Apache License 2.0 (see https://www.apache.org/licenses/LICENSE-2.0)
"""Client of an array's API, and how modules bring an object to a state."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse

from ansible.module_utils.basic import AnsibleModule, env_fallback
from ansible.module_utils.urls import open_url

VERSION = "0.1.0"
# The version of the driver API that the collection speaks; arrays report the range that they serve.
DRIVER_API = 1
ATTEMPTS = 3
RETRY_PAUSE_SECONDS = 0.5

UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgtp", 1):
    UNITS[_letter] = UNITS[_letter + "ib"] = 1024**_power
    UNITS[_letter + "b"] = 1000**_power

CONNECTION = dict(
    url=dict(type="str", fallback=(env_fallback, ["ASHLAR_URL"])),
    token=dict(type="str", no_log=True, fallback=(env_fallback, ["ASHLAR_TOKEN"])),
    ca_path=dict(type="path", fallback=(env_fallback, ["ASHLAR_CA"])),
    validate_certs=dict(type="bool", default=True),
    timeout=dict(type="int", default=60),
)

LIMITS = dict(
    type="dict",
    options=dict(
        iops=dict(type="int"), iops_burst=dict(type="int"), bandwidth=dict(type="str"), bandwidth_burst=dict(type="str")
    ),
)
POLICY = dict(
    type="dict",
    options=dict(
        dedup=dict(type="bool"),
        compression=dict(type="str", choices=["off", "fast", "high", "adaptive"]),
        verify=dict(type="bool"),
    ),
)


class ArrayError(Exception):
    """A refusal of the array, or no answer. `kind` is the array's own, or `unreachable`, `version`."""

    def __init__(self, text, kind, field=None):
        super().__init__(text)
        self.kind = kind
        self.field = field


def size_bytes(text):
    """Bytes of a size such as `10GiB`, `1.5T` or `4096`; binary units unless written as KB, MB, ….

    Raises ValueError with a text for the user.
    """
    match = re.match(r"^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$", str(text).lower())
    if not match or match.group(2) not in UNITS:
        raise ValueError("%r is not a size: write it as 10GiB, 1.5T or in bytes" % text)
    return int(round(float(match.group(1)) * UNITS[match.group(2)])) if "." in match.group(1) else (
        int(match.group(1)) * UNITS[match.group(2)]
    )


def quoted(name):
    return urllib.parse.quote(name, safe="")


class Array(object):
    """One array, by the parameters of a module."""

    def __init__(self, module):
        self.params = module.params
        for name, variable in (("url", "ASHLAR_URL"), ("token", "ASHLAR_TOKEN")):
            if not self.params[name]:
                raise ArrayError("%s is missing: give it, or set %s in the environment" % (name, variable), "invalid")
        self.url = self.params["url"].rstrip("/")
        self.checked = False

    def request(self, method, path, body=None):
        """The answer as a dict, None if it is empty. Requests may be repeated: creations have ensure semantics."""
        if not self.checked and path != "status":
            self.check_version()
        headers = {"Authorization": "Bearer " + self.params["token"], "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = open_url(
                    "%s/api/v1/%s" % (self.url, path),
                    data=data,
                    headers=headers,
                    method=method,
                    timeout=self.params["timeout"],
                    validate_certs=self.params["validate_certs"],
                    ca_path=self.params["ca_path"],
                    http_agent="ashlar-ansible/" + VERSION,
                )
                return self.parse(answer.read())
            except urllib.error.HTTPError as error:
                # 503: the array is starting or being replaced.
                if error.code != 503 or attempt == ATTEMPTS:
                    raise self.refusal(error) from None
            except (urllib.error.URLError, OSError) as error:
                if attempt == ATTEMPTS:
                    text = "%s does not answer: %s; check url, ca_path and the network" % (self.url, error)
                    raise ArrayError(text, "unreachable") from None
            time.sleep(RETRY_PAUSE_SECONDS * attempt)
        raise AssertionError("the last attempt returns or raises")

    def parse(self, content):
        if not content:
            return None
        try:
            return json.loads(content)
        except ValueError:
            text = "%s: the answer is not JSON: is this the address of an array?" % self.url
            raise ArrayError(text, "failed") from None

    def refusal(self, error):
        try:
            problem = json.loads(error.read())
        except ValueError:
            problem = {}
        detail = problem.get("detail") or "HTTP %s" % error.code
        if error.code == 401:
            text = '%s refuses the token: %s; create one with "ashlar token create"' % (self.url, detail)
            return ArrayError(text, "unauthorized")
        return ArrayError("%s: %s" % (self.url, detail), problem.get("kind") or "failed", problem.get("field"))

    def check_version(self):
        status = self.request("GET", "status") or {}
        served = status.get("driver_api") or {}
        low, high = served.get("min", 0), served.get("max", 0)
        if not low <= DRIVER_API <= high:
            raise ArrayError(
                "%s runs Ashlar %s and serves driver API %s to %s; this collection is %s and speaks %s: install the "
                "collection that belongs to the array"
                % (self.url, status.get("version", "unknown"), low, high, VERSION, DRIVER_API),
                "version",
            )
        self.checked = True

    def find(self, path):
        """The object, None if it does not exist."""
        try:
            return self.request("GET", path)
        except ArrayError as error:
            if error.kind == "not_found":
                return None
            raise

    def delete(self, path):
        try:
            self.request("DELETE", path)
        except ArrayError as error:
            if error.kind != "not_found":
                raise

    def items(self, path):
        return self.request("GET", path)["items"]


# Fields of requests that are not shown. A response has a secret only once, when the array makes it: that is the result.
SECRETS = ("chap", "mutual", "dhchap_secret", "dhchap_controller_secret", "tls_psk", "password")


def given(value):
    """A parameter without the parts that the user left out."""
    if isinstance(value, dict):
        return dict((key, given(part)) for key, part in value.items() if part is not None)
    if isinstance(value, list):
        return [given(part) for part in value]
    return value


def limits(params):
    """QoS limits as the array has them: bytes for sizes, null for -1 (unlimited)."""
    if params.get("limits") is None:
        return None
    result = {}
    for key, value in given(params["limits"]).items():
        number = size_bytes(value) if key.startswith("bandwidth") and str(value) != "-1" else int(value)
        result[key] = None if number == -1 else number
    return result


def different(current, wanted):
    """The part of `wanted` that is not so in `current`. Of dicts only the keys that are wanted count."""
    result = {}
    for key, value in wanted.items():
        now = (current or {}).get(key)
        if isinstance(value, dict) and isinstance(now, dict):
            part = different(now, value)
            if part:
                result[key] = part
        elif value != now:
            result[key] = value
    return result


def shown(current, keys):
    """The part of an object that a diff shows."""
    return dict((key, current.get(key)) for key in sorted(keys)) if current else {}


class Change(object):
    """What a module does to one object, with check mode and diff.

    path: of the list, such as `volumes`.
    wanted: fields as the API has them, to be created and kept.
    only_new: further fields of creation; an existing object must agree with those in `fixed`.
    alone: fields that the array changes one request at a time.
    """

    def __init__(self, module, array, path):
        self.module = module
        self.array = array
        self.path = path

    def ensure(self, name, current, wanted, only_new=None, fixed=(), alone=(), create=None):
        only_new = only_new or {}
        if current is None:
            body = dict(wanted, name=name, **only_new)
            self.done(True, {}, body, body if self.module.check_mode else (create or self.create)(body))
        for field in fixed:
            if field in only_new and current.get(field) != only_new[field]:
                raise ArrayError(
                    "%s %s exists with %s %r; it can't become %r"
                    % (self.path.rstrip("s"), name, field, current.get(field), only_new[field]),
                    "differs",
                    field,
                )
        change = different(current, wanted)
        before, after = shown(current, change), shown(merged(current, change), change)
        if not change:
            self.done(False, {}, {}, current)
        if self.module.check_mode:
            self.done(True, before, after, merged(current, change))
        result = current
        single = [{field: change.pop(field)} for field in alone if field in change]
        for part in ([change] if change else []) + single:
            result = self.array.request("PATCH", "%s/%s" % (self.path, quoted(key_of(current))), part)
        self.done(True, before, after, result)

    def create(self, body):
        return self.array.request("POST", self.path, body)

    def absent(self, current, query="", path=None):
        if current is None:
            self.done(False, {}, {}, None)
        if not self.module.check_mode:
            self.array.delete((path or "%s/%s" % (self.path, quoted(key_of(current)))) + query)
        self.done(True, shown(current, [key for key in ("name", "id", "lun") if key in current]), {}, None)

    def done(self, changed, before, after, result):
        answer = dict(changed=changed, diff=dict(before=before, after=without_secrets(after, "secret")))
        if result is not None:
            answer["object"] = without_secrets(result)
            if "id" in result:
                answer["id"] = result["id"]
        self.module.exit_json(**answer)


def without_secrets(fields, *more):
    return dict((key, value) for key, value in fields.items() if key not in SECRETS + more)


def key_of(current):
    """What never changes about an object, if it has such a thing."""
    return current.get("id") or current["name"]


def merged(current, change):
    result = dict(current)
    for key, value in change.items():
        nested = isinstance(value, dict) and isinstance(current.get(key), dict)
        result[key] = merged(current[key], value) if nested else value
    return result


def main(run, **spec):
    """Runs a module: `run(module, array)` ends with `Change.done`; errors are reported with their kind."""
    arguments = spec.pop("argument_spec")
    module = AnsibleModule(argument_spec=dict(CONNECTION, **arguments), supports_check_mode=True, **spec)
    try:
        run(module, Array(module))
    except ArrayError as error:
        module.fail_json(msg=str(error), kind=error.kind, field=error.field)
    except ValueError as error:
        module.fail_json(msg=str(error), kind="invalid")

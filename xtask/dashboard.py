"""Loads dashboards as Grafana's own library does, and tells what is not the same when it writes them again."""

import json
import sys

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def differences(file, loaded, path=""):
    if isinstance(file, dict) and isinstance(loaded, dict):
        for key in file:
            if key in loaded:
                yield from differences(file[key], loaded[key], f"{path}.{key}")
            else:
                yield f"{path}.{key} is not known"
    elif isinstance(file, list) and isinstance(loaded, list) and len(file) == len(loaded):
        for index, pair in enumerate(zip(file, loaded)):
            yield from differences(*pair, f"{path}[{index}]")
    elif file != loaded:
        yield f"{path} is loaded as {loaded!r}, not {file!r}"


plugins.register_default_plugins()
wrong = 0
for name in sys.argv[1:]:
    with open(name) as file:
        board = json.load(file)
    loaded = Dashboard.from_json(board)
    found = list(differences(board, json.loads(JSONEncoder().encode(loaded))))
    print(f"{name}: {len(loaded.panels or [])} panels, {len(found)} differences", *found, sep="\n  ")
    wrong += len(found) + (not loaded.panels)
sys.exit(1 if wrong or len(sys.argv) < 2 else 0)

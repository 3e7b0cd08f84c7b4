"""Checks the scripts without Windows: they are PowerShell by its grammar, and what they send to an array is what its API takes.

Usage: check.py OPENAPI FILES
"""

import json
import re
import sys

import tree_sitter_powershell
from tree_sitter import Language, Parser

PARSER = Parser(Language(tree_sitter_powershell.language()))


def nodes(node, kind=None):
    if kind is None or node.type == kind:
        yield node
    for child in node.children:
        yield from nodes(child, kind)


def text(node):
    return node.text.decode()


def arguments(command):
    """The words of a command by the parameters before them; None for a switch."""
    found, name = {}, None
    elements = next((it for it in command.children if it.type == "command_elements"), None)
    for element in elements.children if elements else []:
        if element.type == "command_parameter":
            name = text(element)[1:]
            found[name] = None
        elif element.type != "command_argument_sep" and name:
            found[name], name = element, None
    return found


def keys(table):
    """The keys of a hash literal; those of tables in it are not among them."""
    body = next((it for it in table.children if it.type == "hash_literal_body"), table)
    return {text(next(nodes(entry, "key_expression"))).strip("'\"") for entry in body.children if entry.type == "hash_entry"}


def table_of(node, tree):
    """The hash literal that an argument is, or that the variable which it is was assigned."""
    literal = next(nodes(node, "hash_literal_expression"), None)
    if literal:
        return literal
    for assignment in nodes(tree, "assignment_expression"):
        if text(assignment).startswith(text(node) + " ="):
            return next(nodes(assignment, "hash_literal_expression"), None)
    return None


def operation(api, method, path):
    wanted = path.strip("'\"").split("/")
    for known, operations in api["paths"].items():
        parts = known.removeprefix("/api/v1").split("/")
        same = len(parts) == len(wanted) and all(
            a == b or a.startswith("{") and b for a, b in zip(parts, wanted)
        )
        if same and method.lower() in operations:
            return operations[method.lower()]
    return None


def fits(api, command, tree):
    given = arguments(command)
    method, path = text(given["Method"]), text(given["Path"])
    found = operation(api, method, path)
    if not found:
        return f"the API has no {method} {path}"
    schema = found.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    body = given.get("Body")
    if not body:
        return f"{method} {path} needs a body" if schema else None
    table = table_of(body, tree)
    if not schema or not table:
        return f"{method} {path}: the body can't be checked"
    schema = api["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    sent = keys(table)
    wrong = sent - schema["properties"].keys() | set(schema.get("required", [])) - sent
    return f"{method} {path}: {sorted(wrong)} are not in the API, or missing" if wrong else None


def check(api, file):
    with open(file, "rb") as source:
        tree = PARSER.parse(source.read()).root_node
    for node in nodes(tree):
        if node.is_error or node.is_missing:
            yield f"line {node.start_point[0] + 1}: no PowerShell: {text(node)[:60]!r}"
    for command in nodes(tree, "command"):
        name = next((text(it) for it in command.children if it.type == "command_name"), "")
        parameters = arguments(command)
        if name == "Invoke-Ashlar" and {"Method", "Path"} <= parameters.keys() and text(parameters["Path"]) != "$Path":
            complaint = fits(api, command, tree)
            if complaint:
                yield f"line {command.start_point[0] + 1}: {complaint}"
            yield None
    # What is not there in Windows PowerShell 5.1.
    for node in nodes(tree):
        if re.fullmatch(r"\?\?|\?\.|&&|\|\||\?", text(node)) and not node.child_count:
            yield f"line {node.start_point[0] + 1}: {text(node)} needs PowerShell 7"


def main(openapi, files):
    with open(openapi, encoding="utf-8") as source:
        api = json.load(source)
    requests = failed = 0
    for file in files:
        for complaint in check(api, file):
            requests += 1
            if complaint:
                failed += 1
                print(f"{file}: {complaint}", file=sys.stderr)
    print(f"Checked {len(files)} scripts, {requests} requests, {failed} complaints")
    # Without requests it has looked for the wrong thing.
    return 1 if failed or not requests else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

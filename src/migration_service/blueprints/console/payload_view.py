"""A payload as a tree for a template. It is folded, but open where something is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from migration_payloads.schemas.json import encode_json


@dataclass(slots=True)
class Node:
    """A value of a payload with its name and its findings."""

    name: str
    path: str
    #: The value as JSON text, or None if it has values below it.
    text: str | None
    below: list["Node"] = field(default_factory=list)
    #: The codes of findings here, each with `error` or `warning`.
    findings: list[tuple[str, str]] = field(default_factory=list)
    #: Something is wrong here or below.
    is_open: bool = False


def view_payload(payload: Any, findings: Sequence[tuple[dict[str, Any], str]]) -> Node:
    """Return the tree of a payload with its findings, each at its place or at the nearest existing one."""
    root = _grow("", "", payload)
    for item, kind in findings:
        node = root
        for part in filter(None, str(item.get("attr") or "").split(".")):
            below = next((it for it in node.below if it.name == part), None)
            if below is None:
                # The error is that the field is missing.
                below = Node(part, f"{node.path}.{part}".lstrip("."), "")
                node.below.append(below)
            node = below
            node.is_open = True
        node.findings.append((str(item["code"]), kind))
    return root


def _grow(name: str, path: str, value: Any) -> Node:
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        below = [_grow(str(key), f"{path}.{key}".lstrip("."), it) for key, it in items]
        return Node(name, path, None, below)
    return Node(name, path, encode_json(value).decode())

"""What `migration-client fix` found in a book and did to it, and how it shows that."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from marshmallow import missing

from migration_payloads.corrections.fixing import Group, Proposal, Step
from migration_payloads.corrections.place import lesser
from migration_payloads.errors import Confidence
from migration_payloads.files.output import say
from migration_payloads.schemas.json import encode_json
from migration_payloads.validation import ValidatedAccount
from migration_service_client.command.output import count, escape, show_json, show_list

_EXAMPLES = 3
_LONGEST = 60


@dataclass(slots=True)
class Tally:
    """The corrections of a group: how many by how sure they are, and the first of them with their lines."""

    found: Counter[Confidence] = field(default_factory=Counter)
    accepted: Counter[Confidence] = field(default_factory=Counter)
    examples: list[tuple[int, tuple[Step, ...]]] = field(default_factory=list)

    def add(self, proposal: Proposal, line_number: int, *, accepted: bool) -> None:
        """Count a correction."""
        self.found[proposal.confidence] += 1
        if accepted:
            self.accepted[proposal.confidence] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append((line_number, proposal.steps))

    @property
    def confidence(self) -> Confidence:
        """Return the confidence of the least sure correction."""
        return reduce(lesser, self.found)


@dataclass(slots=True)
class Report:
    """What was found in a book, and what is left in it."""

    groups: dict[Group, Tally] = field(default_factory=dict)
    #: The number of lines: all, those that were changed, and those with an error in the end.
    lines: int = 0
    changed: int = 0
    failed: int = 0
    #: The number of lines by what is left in them.
    errors: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    #: Accounts that have lost items of lists, so that paths lead elsewhere than before.
    shifted: set[str] = field(default_factory=set)

    def add(self, proposal: Proposal, line_number: int, *, accepted: bool) -> None:
        """Count a correction."""
        tally = self.groups.setdefault(proposal.group, Tally())
        tally.add(proposal, line_number, accepted=accepted)

    def leave(self, account: ValidatedAccount) -> None:
        """Count what is left in a line."""
        self.failed += bool(account.errors)
        self.errors.update(dict.fromkeys((item.code for item in account.errors), 1))
        self.warnings.update(dict.fromkeys((item.code for item in account.warnings), 1))

    def show(self, *, as_json: bool, values: bool) -> None:
        """Print the report. `values`: show those of persons."""
        if as_json:
            show_json(self._to_dict(values=values))
            return
        for group, tally in sorted(self.groups.items()):
            show_group(group, tally, values=values)
        left = [("error", self.errors), ("warning", self.warnings)]
        rows = [
            {"left": code, "severity": severity, "lines": number}
            for severity, counts in left
            for code, number in counts.most_common()
        ]
        show_list(rows, as_json=False, nothing="Nothing is left.")
        sound = self.lines - self.failed
        say(
            f"{count(self.lines, 'line')}: {self.changed} changed, {sound} without errors, "
            f"{self.failed} with errors."
        )

    def _to_dict(self, *, values: bool) -> dict[str, Any]:
        groups = [
            {
                **group._asdict(),
                "confidence": tally.confidence,
                "found": tally.found.total(),
                "accepted": tally.accepted.total(),
                "by_confidence": {
                    sure: {"found": number, "accepted": tally.accepted[sure]}
                    for sure, number in sorted(tally.found.items())
                },
                "examples": [
                    {"line_number": number, "changes": list(_changes(steps, values=values))}
                    for number, steps in tally.examples
                ],
            }
            for group, tally in sorted(self.groups.items())
        ]
        names = ("lines", "changed", "failed", "errors", "warnings")
        return {"corrections": groups} | {name: getattr(self, name) for name in names}


def show_group(group: Group, tally: Tally, *, values: bool) -> None:
    """Print the corrections of a group, with the first of them before and after."""
    counts = (f"{tally.accepted[sure]} of {number} {sure}" for sure, number in sorted(tally.found.items()))
    say(f"{group.code} at {escape(group.at)}: {group.kind}, accepted {', '.join(counts)}")
    for number, steps in tally.examples:
        for change in _changes(steps, values=values):
            say(f"  line {number}, {escape(change)}")


def _changes(steps: tuple[Step, ...], *, values: bool) -> Iterator[str]:
    for path, before, after, personal in steps:
        hidden = personal and not values
        yield f"{path}: {_readable(before, hidden=hidden)} -> {_readable(after, hidden=hidden)}"


def _readable(value: Any, *, hidden: bool) -> str:
    if value is missing:
        return "nothing"
    if hidden:
        return "(a value)"
    text = encode_json(value).decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

"""The journal of `send`: for each run what was to be sent, and what came of it.

A run has a record with its order, then one with the id of its batch or one for each line of single requests,
and one for its end. Keys are derived from the order and the content of the file. So they are the same again
if the journal is lost, whatever the clock says and whatever the file is called.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.journal import Journal, Record, read_journal
from migration_service_client.command.output import progress

COMMAND = "send"
_BLOCK = 1024 * 1024
#: What does not change what is sent: the same file with the same options has the same keys everywhere.
_NOT_IN_KEYS = ("url", "file")


@dataclass(slots=True)
class Run:
    """One sending of a file."""

    #: The file and the options, and how often the same was sent before.
    order: dict[str, Any]
    began: str
    batch_id: str | None = None
    #: The records of lines that were sent singly, by their numbers.
    lines: dict[int, Record] = field(default_factory=dict)
    has_ended: bool = False
    #: Whether the service has refused it as a whole, and nothing was sent.
    is_refused: bool = False

    @property
    def book(self) -> str:
        """Return the name of the book from which keys are derived."""
        return json.dumps({name: it for name, it in self.order.items() if name not in _NOT_IN_KEYS})

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of lines with each status."""
        return dict(Counter(it["status"] for it in self.lines.values()))

    @property
    def warnings(self) -> dict[str, int]:
        """Return the number of lines with each warning."""
        found = ({it["code"] for it in line.get("warnings", ())} for line in self.lines.values())
        return dict(Counter(chain.from_iterable(found)))


class Runs:
    """The runs of a journal. `add` takes its records."""

    def __init__(self) -> None:
        self.last: Run | None = None
        self._rounds: Counter[str] = Counter()

    def add(self, record: Record) -> None:
        """Take the next record."""
        if "run" in record:
            self.last = Run(record["run"], record["began"])
            self._rounds[_without_round(self.last.order)] = self.last.order["round"]
        elif self.last is None:
            return
        elif "batch_id" in record:
            self.last.batch_id = record["batch_id"]
        elif "line_number" in record:
            self.last.lines[record["line_number"]] = record
        elif "ended" in record:
            self.last.has_ended = True
        elif "refused" in record:
            self.last.is_refused = True

    def begin(self, journal: Journal, order: Mapping[str, Any], *, again: bool) -> Run:
        """Return the run that goes on, or a new one, which is noted.

        Raise CannotRunError if the journal is of another file, or if the last run has not ended and was of
        another version of the file, or with other options.
        """
        before = self._rounds[_without_round(order)]
        # The time, because the same content may have been sent with a journal that is not here.
        order = {**order, "round": max(before + 1, int(time.time())) if again else before or 1}
        if self.last is not None:
            is_open = not (self.last.has_ended or self.last.is_refused)
            if _without_round(self.last.order) == _without_round(order) and (is_open or not again):
                if not self.last.is_refused:
                    return self.last
                order["round"] = self.last.order["round"]
            _require_same_file(self.last, order, journal.path)
            if is_open and not again:
                raise CannotRunError(_describe_open(self.last, order, journal.path))
        began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        journal.append({"run": order, "began": began}, to_disk=True)
        self.last = Run(order, began)
        return self.last


def make_order(file: Path, sha256: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies a run: the file and all options that say what is done with it."""
    return {"file": file.name, "sha256": sha256, **dict(sorted(options.items()))}


def digest_file(file: Path) -> str:
    """Return the SHA-256 of a file. Raise CannotRunError unless it is a regular one, to be read again."""
    if file.exists() and not file.is_file():
        raise CannotRunError(f"{file} is not a regular file. Write its content to one first.")
    digest = hashlib.sha256()
    with file.open("rb") as content, progress(f"Reading {file.name}", file.stat().st_size) as bar:
        while block := content.read(_BLOCK):
            digest.update(block)
            bar.update(len(block))
    return digest.hexdigest()


def journal_of(file: Path) -> Path:
    """Return the journal beside a file."""
    return file.with_name(f"{file.name}.journal")


def find_run(target: str) -> Run | None:
    """Return the last run of a file, given by its name or by that of its journal. None if there is no such.

    Raise CannotRunError if the file was not sent.
    """
    path = Path(target)
    journal = journal_of(path)
    if journal.exists():
        path = journal
    elif not path.is_file():
        return None
    elif not path.name.endswith(".journal"):
        raise CannotRunError(
            f"{target} was not sent: {journal} does not exist. Send it first, or give the id of a batch."
        )
    runs = Runs()
    read_journal(path, COMMAND, runs.add)
    if runs.last is None:
        raise CannotRunError(f"{path} is empty: nothing was sent. Send the file, or give the id of a batch.")
    return runs.last


def _without_round(order: Mapping[str, Any]) -> str:
    # Older journals have the options as they stood on the command line.
    return json.dumps({name: order[name] for name in sorted(order) if name not in ("round", "file")})


def _require_same_file(last: Run, order: Mapping[str, Any], path: Path) -> None:
    if last.order["sha256"] != order["sha256"] and last.order["file"] != order["file"]:
        raise CannotRunError(
            f"{path} is the journal of another file, {last.order['file']}. Nothing was sent. Name another "
            "journal with --journal."
        )


def _describe_open(last: Run, order: Mapping[str, Any], path: Path) -> str:
    begun = f"{path} has a run of {last.began} that has not ended."
    if last.order["sha256"] != order["sha256"]:
        return (
            f"{begun} {order['file']} has changed since then. Nothing was sent. Put the earlier version back "
            "to go on, or add --again to send the file as it is now."
        )
    changed = [name for name in order if name != "round" and last.order.get(name) != order[name]]
    differences = ", ".join(
        f"{name.replace('_', '-')} was {last.order.get(name) or '-'} and is now {order[name] or '-'}"
        for name in changed
    )
    return (
        f"{begun} It was begun otherwise: {differences}. Nothing was sent. Give the same options to go on, "
        "or add --again to begin anew."
    )

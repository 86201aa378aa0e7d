"""`migration-client check`: validation without a server, with the findings of a batch in mode `validate`.

Blocks of lines are sent to worker processes. The validating functions are those of the interface.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from migration_payloads.errors import (
    ConflictingLinesError,
    DuplicateLineError,
    ErrorItem,
    ImportSupplierMismatchError,
    LineTooLongError,
    ParseError,
)
from migration_payloads.files.ndjson import Line
from migration_payloads.files.output import OutputPath, replacing, say
from migration_payloads.files.processes import map_in_processes
from migration_payloads.files.totals import FileTotals, add_up, describe_unreadable
from migration_payloads.moments import DEFAULT_TIME_ZONE
from migration_payloads.normal_form import digest_line
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.validation import validate_text
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lineage import find_rows
from migration_service_client.command.lines import (
    copy_of_pipe,
    file_argument,
    open_lines,
    profile_option,
    read_lines,
    time_zone_option,
)
from migration_service_client.command.output import json_option, show_json, show_list

_Result = TypeVar("_Result")

#: Lines in a block.
BLOCK = 200
#: Bytes of the number of a line.
_WIDTH = 6
#: The number of examples kept for each code.
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Example:
    """A place where a code was found."""

    line_number: int
    external_account_number: str | None
    attr: str | None
    detail: str


@dataclass(slots=True)
class Summary:
    """The findings in a file or in a part of it."""

    #: The number of non-blank lines, and of those with an error.
    lines: int = 0
    failed: int = 0
    #: The number of lines, and the first examples, by code.
    errors: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)
    totals: FileTotals = field(default_factory=FileTotals)

    def add(self, other: "Summary") -> None:
        """Add the findings of the next part."""
        self.lines += other.lines
        self.failed += other.failed
        self.errors += other.errors
        self.warnings += other.warnings
        self.totals.add(other.totals)
        for code, examples in other.examples.items():
            self.examples[code] = (self.examples.get(code, []) + examples)[:EXAMPLES]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values for JSON."""
        own = {name: getattr(self, name) for name in Summary.__slots__}
        return own | {"totals": self.totals.to_dict()}

    def tables(self) -> Iterator[list[dict[str, Any]]]:
        """Yield a table of the errors, and one of the warnings: each code with its first example."""
        for kind, counts in (("error", self.errors), ("warning", self.warnings)):
            rows = []
            for code, number in counts.most_common():
                first = self.examples[code][0]
                rows.append(
                    {
                        kind: code,
                        "lines": number,
                        "first_on_line": first.line_number,
                        "account": first.external_account_number,
                        "at": first.attr,
                        "says": first.detail,
                    }
                )
            if rows:
                yield rows

    def describe(self) -> Iterator[str]:
        """Yield what was found in sentences, to follow the tables."""
        if unread := self.describe_unread():
            yield f"{unread}, so the totals of the file are incomplete."
        noun = "line" if self.lines == 1 else "lines"
        sound = self.lines - self.failed
        yield f"{self.lines} {noun}: {sound} without errors, {self.failed} with errors."

    def describe_unread(self) -> str:
        """Return how much the totals lack, in words. Empty if they lack nothing."""
        return describe_unreadable(self.totals.unreadable_lines, self.totals.unreadable_amounts)

    def find(self, checked: "_Checked") -> None:
        """Add the findings of a line."""
        self.lines += 1
        self.failed += bool(checked.errors)
        self.errors.update(dict.fromkeys((item.code for item in checked.errors), 1))
        self.warnings.update(dict.fromkeys((item.code for item in checked.warnings), 1))
        for item in (*checked.errors, *checked.warnings):
            examples = self.examples.setdefault(item.code, [])
            if len(examples) < EXAMPLES:
                examples.append(Example(checked.line_number, checked.number, item.attr, item.detail))


@dataclass(slots=True)
class _Checked:
    """A validated line, as a worker process returns it."""

    line_number: int
    number: str | None
    errors: list[ErrorItem]
    warnings: list[ErrorItem]
    #: A hash of the text.
    digest: bytes = b""


class _Repeated(NamedTuple):
    """A line with the account of an earlier one, and with another text."""

    first_line: int
    line_number: int
    number: str


def check_lines(
    lines: Iterable[Line],
    profile: Profile,
    *,
    read_again: Callable[[], Iterable[Line]],
    supplier: str | None = None,
    time_zone: str = DEFAULT_TIME_ZONE,
    processes: int | None = None,
) -> Iterator[Summary]:
    """Yield the findings of consecutive parts of the lines, for the caller to add up.

    If `supplier` is given, every line must name that import supplier. `time_zone` determines today's date.
    The default of `processes` is one per processor.

    Lines of one account are compared by what they say, which takes long. So only those with different texts
    are compared, at the end, when `read_again` returns the lines once more.
    """
    seen: dict[bytes, bytes] = {}
    repeated: list[_Repeated] = []
    check = partial(_check_block, profile=profile, supplier=supplier, time_zone=time_zone)
    for checked, totals in _map_blocks(check, lines, processes):
        yield _summarise(checked, totals, seen, repeated)
    if repeated:
        yield _compare(repeated, read_again(), processes)


def _map_blocks(
    work: Callable[[list[Line]], _Result], lines: Iterable[Line], processes: int | None
) -> Iterator[_Result]:
    """Return what `work` returns for each block of lines, in their order."""
    rest = iter(lines)
    return map_in_processes(work, iter(lambda: list(islice(rest, BLOCK)), []), processes)


def _check_block(
    lines: list[Line], *, profile: Profile, supplier: str | None, time_zone: str
) -> tuple[list[_Checked], FileTotals]:
    checked = [_check(line, profile, supplier, time_zone) for line in lines]
    return checked, add_up(line.text for line in lines)


def _check(line: Line, profile: Profile, supplier: str | None, time_zone: str) -> _Checked:
    if line.text is None:
        return _Checked(line.number, None, LineTooLongError().errors, [])
    try:
        account = validate_text(line.text, profile, time_zone)
    except ParseError as error:
        return _Checked(line.number, None, error.errors, [])
    found = account.data.get("import_supplier", supplier)
    if supplier is not None and found != supplier:
        account.errors += ImportSupplierMismatchError(found=found, expected=supplier).errors
    number = account.data.get("external_account_number")
    return _Checked(line.number, number, account.errors, account.warnings, _hash(line.text))


def _hash(value: bytes) -> bytes:
    return blake2b(value, digest_size=12).digest()


def _summarise(
    block: list[_Checked], totals: FileTotals, seen: dict[bytes, bytes], repeated: list[_Repeated]
) -> Summary:
    """Return the findings of a block.

    `seen` has the number of the first line of every account so far, followed by its digest. That line is not
    among the findings if a later one differs from it. Lines that may differ are added to `repeated`.
    """
    summary = Summary(totals=totals)
    for checked in block:
        if checked.number is not None:
            key = _hash(checked.number.encode())
            if key in seen:
                if checked.digest != seen[key][_WIDTH:]:
                    first_line = int.from_bytes(seen[key][:_WIDTH])
                    repeated.append(_Repeated(first_line, checked.line_number, checked.number))
                checked.errors += DuplicateLineError().errors
            seen.setdefault(key, checked.line_number.to_bytes(_WIDTH) + checked.digest)
        summary.find(checked)
    return summary


def _compare(repeated: list[_Repeated], lines: Iterable[Line], processes: int | None) -> Summary:
    """Return the findings of repeated lines that do not say the same as the first line of their account."""
    wanted = {number for it in repeated for number in (it.first_line, it.line_number)}
    digests: dict[int, bytes] = {}
    for part in _map_blocks(_digest_block, (it for it in lines if it.number in wanted), processes):
        digests |= part
    summary = Summary()
    for it in repeated:
        if digests.get(it.first_line) != digests.get(it.line_number):
            summary.find(_Checked(it.line_number, it.number, ConflictingLinesError().errors, []))
    summary.lines = summary.failed = 0  # each line has been counted as a repeated one
    return summary


def _digest_block(lines: list[Line]) -> dict[int, bytes]:
    return {line.number: digest_line(line.text or b"") for line in lines}


#: The member that tells added data from an account, which has customers.
_ADDED = {
    "notes": "notes",
    "transactions": "transactions",
    "statements": "statements",
    "vendor": "payment-instructions",
}


def _require_accounts(lines: Iterator[Line], file: Path) -> Iterator[Line]:
    """Yield the lines. Raise CannotRunError if the first one is data to add to an account."""
    first = next(lines, None)
    if first is None:
        return
    try:
        members = parse_json(first.text or b"{}")
    except ParseError:
        members = {}
    if not isinstance(members, dict) or members.keys() & {"customers", "ledgers"}:
        members = {}
    if kind := next((kind for name, kind in _ADDED.items() if name in members), None):
        raise CannotRunError(
            f"The lines of {file} are {kind}, and this command checks accounts. The service checks them: "
            f"migration-client send {file} --kind {kind} --mode validate"
        )
    yield from chain([first], lines)


@click.command()
@file_argument
@profile_option
@click.option("--supplier", metavar="CODE", help="Require every line to name this import supplier.")
@time_zone_option
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes.  [default: one per processor]",
)
@click.option(
    "--totals",
    "totals_file",
    type=OutputPath(),
    metavar="OUT.json",
    help="Also write the totals of the file as control totals, which a batch can be started with.",
)
@json_option
def check(
    *,
    file: Path,
    profile: str,
    supplier: str | None,
    time_zone: str,
    processes: int | None,
    totals_file: Path | None,
    as_json: bool,
) -> None:
    """Validate the accounts in FILE by all rules of the service.

    FILE is NDJSON, plain or gzip. - is standard input, of which a copy is kept meanwhile in the folder for
    temporary files, TMPDIR. The exit status is 0 if no line has an error, 1 if a
    line has one, and 2 if the file cannot be read.
    """
    summary = Summary()
    with copy_of_pipe(file) as copy, open_lines(file, "Checking", copy) as lines:
        for part in check_lines(
            _require_accounts(lines, file),
            Profile(profile),
            supplier=supplier,
            time_zone=time_zone,
            processes=processes,
            read_again=partial(read_lines, file, copy),
        ):
            summary.add(part)
    if totals_file is not None:
        with replacing(totals_file) as out:
            out.write(encode_json(summary.totals.control_totals()) + b"\n")
        if as_json and (unread := summary.describe_unread()):
            say(f"{unread}, so the totals in {totals_file} are incomplete.", err=True)
    if as_json:
        show_json(summary.to_dict())
    else:
        tables = list(summary.tables())
        rows = find_rows(file, ((it["account"], it["at"]) for table in tables for it in table))
        for table in tables:
            made_of = ({**it, "made_of": rows.get((it["account"], it["at"]))} if rows else it for it in table)
            show_list(made_of, as_json=False, nothing="")
        for sentence in summary.describe():
            say(sentence)
    click.get_current_context().exit(1 if summary.failed else 0)

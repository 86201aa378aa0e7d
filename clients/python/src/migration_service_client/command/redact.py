"""`migration-client redact`."""

import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from migration_payloads.errors import ParseError
from migration_payloads.files.ndjson import Line
from migration_payloads.files.output import OutputPath, replacing, say
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lines import file_argument, open_lines
from migration_service_client.command.output import count, json_option, show_json
from migration_service_client.command.redaction import Redaction, find


@click.command()
@file_argument
@click.option(
    "--line",
    "wanted",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="Only this line. Give it several times for several lines.",
)
@click.option("--failed", is_flag=True, help="Only lines with an error.")
@click.option("-o", "--output", type=OutputPath(), required=True, metavar="OUT", help="The file to write.")
@json_option
def redact(*, file: Path, wanted: tuple[int, ...], failed: bool, output: Path, as_json: bool) -> None:
    """Write a sample of FILE to OUT without the values of persons.

    Each account keeps its structure, its lengths and its codes, and the service finds the same in it at the
    same paths. Names, e-mail addresses, telephone numbers, addresses, dates of birth, notes, references,
    numbers of accounts and EANs are replaced, as is everything that is not where it belongs. The same value
    has the same replacement in all of OUT, and another one the next time. Amounts, quantities, other dates
    and the names of members are kept.

    A line of which this cannot be said is left out, and named. FILE is NDJSON, plain or gzip. - is standard
    input. The exit status is 0 if every line was written, 1 if one was left out or does not exist, and 2 if
    redact could not run.
    """
    if output.exists() and file.exists() and output.samefile(file):
        raise CannotRunError(f"{output} is the file that is read. Name another one.")
    redaction = Redaction(secrets.token_bytes(32))
    written, left_out, missing = 0, list[dict[str, Any]](), set(wanted)
    with open_lines(file, "Redacting") as lines, replacing(output) as out:
        for line in _chosen(lines, missing, wanted):
            try:
                text = _redact(line, redaction, failed=failed)
            except _LeftOutError as error:
                left_out.append({"line_number": line.number, "reason": str(error)})
                continue
            if text is not None:
                out.write(text + b"\n")
                written += 1
    left_out += [{"line_number": it, "reason": "The file has no such account."} for it in sorted(missing)]
    if as_json:
        show_json({"written": written, "left_out": left_out})
    else:
        for it in left_out:
            say(f"Line {it['line_number']} is left out. {it['reason']}")
        say(f"{count(written, 'account')} written to {output}.")
    click.get_current_context().exit(1 if left_out else 0)


class _LeftOutError(Exception):
    """The line cannot be redacted. The text says why."""


def _chosen(lines: Iterator[Line], missing: set[int], wanted: tuple[int, ...]) -> Iterator[Line]:
    for line in lines:
        if line.number in missing or not wanted:
            missing.discard(line.number)
            yield line
            if wanted and not missing:
                return


def _redact(line: Line, redaction: Redaction, *, failed: bool) -> bytes | None:
    """Return the redacted line, or None if it is not wanted."""
    if line.text is None:
        raise _LeftOutError("It is longer than the service accepts.")
    try:
        before, account = find(line.text)
        if failed and not account.errors:
            return None
        text = encode_json(redaction.redact(parse_json(line.text)))
    except ParseError as error:
        raise _LeftOutError(f"It cannot be read: {error}") from error
    try:
        after, _ = find(text)
    except ParseError:
        after = []
    if after != before:
        one, other = Counter(before), Counter(after)
        differing = sorted({code for _, code, _ in (one - other) + (other - one)})
        raise _LeftOutError(f"The service would find something else in it: {', '.join(differing)}.")
    return text

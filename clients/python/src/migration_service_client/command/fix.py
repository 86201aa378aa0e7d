"""`migration-client fix`."""

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

from migration_payloads.corrections.catalogue import CODES, CORRECTIONS
from migration_payloads.corrections.fixing import Accepts, Group, fix_account, propose
from migration_payloads.corrections.place import lesser
from migration_payloads.errors import Confidence, Operation, ParseError
from migration_payloads.files.output import OutputPath, is_in_place, replacing, say
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.validation import validate_account, validate_text
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.fix_report import Report, show_group
from migration_service_client.command.lineage import copy_rows
from migration_service_client.command.lines import (
    LIMITS,
    STANDARD_INPUT,
    file_argument,
    open_lines,
    profile_option,
    time_zone_option,
)
from migration_service_client.command.output import json_option

_VERSION = 1
_ABOUT = {correction.kind: correction.about for correction in CORRECTIONS}
_MEMBERS = ("code", "at", "kind", "confidence")


#: The least confidence that is accepted of each group.
Recipe = dict[Group, Confidence]


def _keep(report: Report, accepts: Accepts, recipe_file: Path) -> None:
    steps = [
        {**group._asdict(), "confidence": least, "about": _ABOUT[group.kind]}
        for group, tally in sorted(report.groups.items())
        if tally.accepted and (least := accepts(group)) is not None
    ]
    with replacing(recipe_file) as out:
        out.write(json.dumps({"recipe": _VERSION, "steps": steps}, indent=2).encode() + b"\n")


def _read(recipe_file: Path) -> Recipe:
    try:
        return dict(_read_steps(parse_json(recipe_file.read_bytes())))
    except (ParseError, ValueError) as error:
        raise CannotRunError(f"{recipe_file} is no recipe: {error}") from error


def _read_steps(recipe: Any) -> Iterable[tuple[Group, Confidence]]:
    """Yield the corrections that a recipe accepts. Raise ValueError if it is none, or of another version."""
    if not isinstance(recipe, dict) or not isinstance(recipe.get("steps"), list):
        raise ValueError("Expected an object with the members recipe and steps.")
    if recipe.get("recipe") != _VERSION:
        raise ValueError(f"Expected a recipe of version {_VERSION}.")
    for number, step in enumerate(recipe["steps"], 1):
        values = [step.get(name) for name in _MEMBERS] if isinstance(step, dict) else []
        if len(values) != len(_MEMBERS) or not all(isinstance(it, str) for it in values):
            raise ValueError(f"Step {number} lacks one of {', '.join(_MEMBERS)}.")
        code, at, kind, confidence = map(str, values)
        if kind not in _ABOUT:
            raise ValueError(f"Step {number} has the kind {kind!r}, which this version does not know.")
        if confidence not in list(Confidence):
            raise ValueError(f"Step {number}: expected the confidence {', '.join(Confidence)}.")
        yield Group(code, at, kind), Confidence(confidence)


class _Terms(NamedTuple):
    """What accounts are checked by."""

    profile: Profile
    time_zone: str


def _read_accepted(
    _context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    for word in words:
        code, _, kind = word.partition(":")
        if kind and code in CODES:
            kinds = sorted(it.kind for it in CORRECTIONS if code in it.codes)
            if kind not in kinds:
                raise click.BadParameter(f"{code} has no {kind}: expected {', '.join(kinds)}.")
        elif word not in CODES and word not in list(Confidence):
            raise click.BadParameter(
                f"{word} is neither certain, likely or guess, nor a code that has corrections."
            )
    return words


@click.command()
@file_argument
@click.option(
    "-o",
    "--output",
    "out",
    type=OutputPath(),
    metavar="OUT",
    help="Write the corrected book to OUT, compressed if it ends in .gz, and the recipe to OUT.recipe.json "
    "unless OUT is standard output, a pipe or a device.",
)
@click.option(
    "--accept",
    "words",
    multiple=True,
    metavar="WORD",
    callback=_read_accepted,
    help="Accept what is certain, or also what is likely, or even a guess; or every correction of a code, or "
    "one of its kinds as CODE:KIND.",
)
@click.option(
    "--recipe",
    "recipe_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Accept what was accepted for an earlier book.",
)
@profile_option
@time_zone_option
@click.option("--show-values", is_flag=True, help="Show values of persons, also in a pipe.")
@json_option
def fix(
    *,
    file: Path,
    out: Path | None,
    words: tuple[str, ...],
    recipe_file: Path | None,
    profile: str,
    time_zone: str,
    show_values: bool,
    as_json: bool,
) -> None:
    """Correct the accounts in FILE, as far as a correction is known and you accept it.

    FILE is NDJSON, plain or gzip. - is standard input. Without -o, show what could be corrected. Without
    --accept and --recipe, ask. The exit status is 0 if no line has an error in the end, 1 if a line has one,
    and 2 if the command could not run.
    """
    values = show_values or (sys.stdout.isatty() and not as_json)
    terms = _Terms(Profile(profile), time_zone)
    if words and recipe_file:
        raise click.UsageError("Expected --accept or --recipe, not both.")
    if out is not None and out.exists() and file.exists() and out.samefile(file):
        raise click.UsageError("OUT is FILE. Expected another name, so that the book remains as it was.")
    if words:
        accepts = _accept(words)
    elif recipe_file:
        accepts = _read(recipe_file).get
    elif out is None:
        accepts = _accept_nothing
    else:
        accepts = _ask(file, terms, values=values).get
    report = _write(file, out, terms, accepts)
    if out is not None:
        copy_rows(file, out, report.shifted)
    if out is not None and is_in_place(out):
        if not recipe_file:
            say(f"{out} is written in place, so the recipe is not kept.", err=True)
    elif out is not None and not recipe_file:
        _keep(report, accepts, Path(f"{out}.recipe.json"))
    report.show(as_json=as_json, values=values)
    sys.exit(1 if report.failed else 0)


def _accept(words: tuple[str, ...]) -> Accepts:
    named = frozenset(words) - frozenset(Confidence)
    least: Confidence | None = None
    for word in words:
        if word not in named:
            least = Confidence(word) if least is None else lesser(least, Confidence(word))
    return lambda group: (
        Confidence.GUESS if not named.isdisjoint((group.code, f"{group.code}:{group.kind}")) else least
    )


def _accept_nothing(_group: Group) -> None:
    return None


def _ask(file: Path, terms: _Terms, *, values: bool) -> Recipe:
    """Return what the user accepts of the corrections that the book can have."""
    if not sys.stdin.isatty():
        raise click.UsageError("Expected --accept or --recipe, or a terminal to ask on.")
    if file == STANDARD_INPUT or (file.exists() and not file.is_file()):
        raise click.UsageError(
            f"{file} is no file, and it is read twice if you are asked. Expected --accept or --recipe."
        )
    accepted: Recipe = {}
    for group, tally in sorted(_write(file, None, terms, _accept_nothing).groups.items()):
        show_group(group, tally, values=values)
        if click.confirm("Accept these?", default=tally.confidence is Confidence.CERTAIN):
            accepted[group] = tally.confidence
    return accepted


def _write(file: Path, out: Path | None, terms: _Terms, accepts: Accepts) -> Report:
    """Write the corrected lines of a book to `out`, if there is one, each with the number that it had."""
    report, last = Report(), 0
    with ExitStack() as stack:
        lines = stack.enter_context(open_lines(file, "Correcting"))
        written = None if out is None else stack.enter_context(_open(out))
        for line in lines:
            if line.text is None:
                raise CannotRunError(
                    f"{file} cannot be read: line {line.number} is longer than {LIMITS.line:,} bytes."
                )
            text = _fix_line(line.text, line.number, terms, accepts, report)
            if written is not None:
                written.write(b"\n" * (line.number - last - 1) + text + b"\n")
            last = line.number
    return report


@contextmanager
def _open(out: Path) -> Iterator[IO[bytes]]:
    with replacing(out) as plain:
        if out.suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, plain, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield plain


def _fix_line(text: bytes, number: int, terms: _Terms, accepts: Accepts, report: Report) -> bytes:
    """Return the corrected line. One in which nothing was corrected remains as it is."""
    report.lines += 1
    try:
        account = validate_text(text, *terms)
    except ParseError as error:
        report.failed += 1
        report.errors.update(dict.fromkeys((item.code for item in error.errors), 1))
        return text
    if not account.errors and not account.warnings:
        return text
    payload: Any = parse_json(text)
    applied, account = fix_account(payload, account, accepts, lambda it: validate_account(it, *terms))
    for proposal in applied:
        report.add(proposal, number, accepted=True)
    for proposal in propose(payload, account):
        report.add(proposal, number, accepted=False)
    report.leave(account)
    report.changed += bool(applied)
    if any(
        it.op is Operation.REMOVE and it.path[-1:].isdecimal() for one in applied for it in one.suggestions
    ):
        report.shifted.add(str(payload.get("external_account_number")))
    return encode_json(payload) if applied else text

"""`migration-client profile`."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import click

from migration_payloads.files.output import OutputPath, replacing, say
from migration_service_client.command.book_profile import POINTS, profile_book
from migration_service_client.command.drift import find_drift
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lines import file_argument, open_lines
from migration_service_client.command.output import count, json_option, show_json, show_list

_MARK = b'{"migration_profile"'


@click.command()
@file_argument
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="EARLIER",
    help="Show how FILE differs from this book, or from its profile that --save wrote.",
)
@click.option(
    "--save", type=OutputPath(), metavar="OUT.json", help="Write the profile to a file, for --against."
)
@json_option
def profile(*, file: Path, against: Path | None, save: Path | None, as_json: bool) -> None:
    """Show what the values of FILE are like, path by path.

    For each path: how often it is missing, the types, ranges and quantiles of numbers and dates, the most
    frequent codes, and the forms of other texts, in which 9 is a digit and a or A one letter or several. No
    value of a person is shown or saved. Numbers and dates far outside of the others follow, with their lines.

    With --against, only the drift is shown: what differs by more than chance from an earlier book. FILE is
    NDJSON, plain or gzip. - is standard input. The exit status is 0, or 1 if there is drift, or 2 if the file
    cannot be read.
    """
    earlier = None if against is None else _read_earlier(against)
    found = _profile(file)
    if save is not None:
        with replacing(save) as out:
            out.write(json.dumps(found).encode() + b"\n")
    if earlier is None:
        _show(found, as_json)
        return
    drift = [asdict(it) for it in find_drift(earlier, found)]
    show_list(drift, as_json, nothing="No drift.")
    click.get_current_context().exit(1 if drift else 0)


def _profile(file: Path) -> dict[str, Any]:
    with open_lines(file, "Profiling") as lines:
        return profile_book(lines)


def _read_earlier(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        is_saved = stream.read(len(_MARK)) == _MARK
    if not is_saved:
        return _profile(file)
    try:
        saved: dict[str, Any] = json.loads(file.read_bytes())
        version = saved["migration_profile"]
    except ValueError as error:
        raise CannotRunError(f"{file} is a profile that cannot be read: {error}. Save it again.") from error
    if version != 2:
        raise CannotRunError(f"{file} is a profile of another version of this command. Save it again.")
    return saved


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    rows = [{"path": path, **_describe(known)} for path, known in found["paths"].items()]
    show_list(rows, as_json=False, nothing="No account.")
    for path, known in found["paths"].items():
        if far := [f"{_write(value, known)} on line {line}" for value, line in known.get("outliers", ())]:
            say(f"Far from the others at {path}: {', '.join(far)}.")
    unreadable = f", {found['unreadable']} of them unreadable" if found["unreadable"] else ""
    say(f"{count(found['lines'], 'line')}{unreadable}.")


def _describe(known: dict[str, Any]) -> dict[str, Any]:
    given = known.get("values", 0) - known.get("null", 0) - known.get("empty", 0)
    parents = known.get("parents", 0)
    missing = f"{100 * (1 - given / parents):.1f} %" if parents else "-"
    types = ", ".join(known.get("kinds", {}))
    return {"values": given, "missing": missing, "types": types, "what": "; ".join(_details(known))}


def _details(known: dict[str, Any]) -> Iterator[str]:
    if "quantiles" in known:
        points = [known["quantiles"][int(it * (POINTS - 1))] for it in (0, 0.25, 0.5, 0.75, 1)]
        yield "quartiles " + ", ".join(_write(it, known) for it in points)
    elif "codes" in known:
        yield _most(known["codes"])
    elif "shapes" in known:
        yield _most(known["shapes"], 3)
    elif "list" in known.get("kinds", {}) and "lengths" in known:
        sizes = sorted(map(int, known["lengths"]))
        yield f"{sizes[0]} to {sizes[-1]} items"
    if "distinct" in known:
        yield f"{known['distinct']} different"
    for name, what in (("damaged", "with lost or wrong letters"), ("rounded", "rounded by a spreadsheet")):
        if name in known:
            yield f"{known[name]} {what}"


def _most(counts: dict[str, int], number: int = 5) -> str:
    total = sum(counts.values())
    most = sorted(counts.items(), key=lambda it: -it[1])[:number]
    return ", ".join(f"{value or 'others'} {100 * times / total:.1f} %" for value, times in most)


def _write(value: float, known: dict[str, Any]) -> str:
    return date.fromordinal(int(value)).isoformat() if "is_date" in known else f"{value:g}"

"""`migration-service batches brake`, and the options that set the brake of a batch."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from migration_service.cli.output import json_option, show_done
from migration_service.cli.session import open_session, read_settings
from migration_service.services.batches.control import get_batch
from migration_service.services.batches.error_threshold_options import read_brake
from migration_service.services.batches.error_thresholds import NO_BRAKE, brake_to_store, set_brake

_Command = TypeVar("_Command", bound=Callable[..., Any])

_THRESHOLD = (
    "Pause the batch after this many failed lines (100), or when more than this percentage failed (5%); off: "
    "never."
)
_OPTIONS = (
    click.option(
        "--stop-min-lines", type=int, metavar="N", help="A percentage counts from this number of lines on."
    ),
    click.option(
        "--stop-window", "stop_window_lines", type=int, metavar="N", help="Count only about the last N lines."
    ),
    click.option(
        "--stop-ignore",
        "stop_ignore_codes",
        multiple=True,
        metavar="CODE",
        help="Do not count lines that fail with this code alone. May be given several times.",
    ),
    click.option(
        "--stop-count-warnings",
        multiple=True,
        metavar="CODE",
        help="Count lines with this warning as failed ones. May be given several times.",
    ),
)


def brake_options(command: _Command) -> _Command:
    """Add the options of a brake to a command that starts something."""
    threshold = click.option("--stop-after-errors", metavar="NUMBER|%|off", help=_THRESHOLD)
    for option in (*reversed(_OPTIONS), threshold):
        command = option(command)
    return command


@click.command()
@click.argument("batch_id")
@click.argument("stop_after_errors", metavar="NUMBER|%|off")
@_OPTIONS[0]
@_OPTIONS[1]
@_OPTIONS[2]
@_OPTIONS[3]
@json_option
def brake(batch_id: str, stop_after_errors: str, as_json: bool, **others: Any) -> None:
    """Change what pauses the batch BATCH_ID after too many errors, also while it runs.

    It is paused after this NUMBER of failed lines, or when more than this percentage failed.
    """
    with open_session(read_settings()) as session:
        found = read_brake(stop_after_errors=stop_after_errors, **others) or NO_BRAKE
        set_brake(session, get_batch(session, batch_id, organisation_id=None), found)
    stored = brake_to_store(found)
    described = describe_brake(stored) if stored else "nothing pauses it"
    show_done({"batch_id": batch_id, "brake": stored}, as_json, f"Batch {batch_id}: {described}.")


def describe_brake(values: dict[str, Any]) -> str:
    """Return a stored or reported brake in words."""
    threshold, window = values["stop_after_errors"], values["stop_window_lines"]
    lines = f"the last {window} lines" if window else "the lines"
    if threshold.endswith("%"):
        words = f"paused when more than {threshold} of {lines} failed"
        words += "" if window else f", from {values['stop_min_lines']} lines on"
    else:
        words = f"paused after {threshold} errors" + (f" in {lines}" if window else "")
    if codes := values["stop_ignore_codes"]:
        words += f", not counting {', '.join(codes)}"
    if codes := values.get("stop_count_warnings"):
        words += f", counting lines with {', '.join(codes)}, too"
    if "errors" in values:
        rounded = ", counted in whole chunks" if window and values["lines"] > window else ""
        words += f" (now {values['errors']} errors in {values['lines']} lines{rounded}"
        found = ", ".join(f"{code} {lines}" for code, lines in list(values["codes"].items())[:3])
        words += f": {found})" if found else ")"
    return words

"""`migration-service batches error-threshold`, and the options that set a batch's error threshold."""

from copy import copy
from typing import Any

import click

from migration_service.cli.output import json_option, show_done, together
from migration_service.cli.session import open_session, read_settings
from migration_service.services.batches.control import get_batch
from migration_service.services.batches.error_threshold_options import read_threshold
from migration_service.services.batches.error_thresholds import (
    NO_THRESHOLD,
    put_in_words,
    set_threshold,
    threshold_to_store,
)

_THRESHOLD = (
    "Pause the batch after this many failed lines (100), or if more than this percentage fails "
    "(5%). off: never pause it for errors."
)
_details = together(
    click.option("--stop-min-lines", type=int, metavar="N", help="Apply a percentage only after N lines."),
    click.option(
        "--stop-window",
        "stop_window_lines",
        type=int,
        metavar="N",
        help="Count only the last N lines, approximately.",
    ),
    click.option(
        "--stop-ignore",
        "stop_ignore_codes",
        multiple=True,
        metavar="CODE",
        help="Do not count lines that fail only with this code. Can be repeated.",
    ),
    click.option(
        "--stop-count-warnings",
        multiple=True,
        metavar="CODE",
        help="Count lines with this warning as failed. Can be repeated.",
    ),
)


#: Adds the error threshold options to a command that starts something.
threshold_options = together(
    click.option("--stop-after-errors", metavar="NUMBER|%|off", help=_THRESHOLD), _details
)


@click.command("error-threshold")
@click.argument("batch_id")
@click.argument("stop_after_errors", metavar="NUMBER|%|off")
@_details
@json_option
def error_threshold(batch_id: str, stop_after_errors: str, as_json: bool, **others: Any) -> None:
    """Set the error threshold of the batch BATCH_ID, even while it is running.

    The batch is paused after NUMBER failed lines, or if more than this percentage fails. off: never.
    """
    with open_session(read_settings()) as session:
        found = read_threshold(stop_after_errors=stop_after_errors, **others) or NO_THRESHOLD
        set_threshold(session, get_batch(session, batch_id, organisation_id=None), found)
    stored = threshold_to_store(found)
    described = describe_threshold(stored) if stored else "no error threshold"
    show_done({"batch_id": batch_id, "brake": stored}, as_json, f"Batch {batch_id}: {described}.")


#: The former name of the command. It is removed in the next release.
brake = copy(error_threshold)
brake.name, brake.hidden = "brake", True


def describe_threshold(values: dict[str, Any]) -> str:
    """Return a stored or reported error threshold in words."""
    words, contained = put_in_words(values)
    words = f"paused when {words % contained}"
    if codes := values["stop_ignore_codes"]:
        words += f", not counting {', '.join(codes)}"
    if codes := values.get("stop_count_warnings"):
        words += f", counting lines with {', '.join(codes)}, too"
    if "errors" in values:
        window = values["stop_window_lines"]
        rounded = ", counted in whole chunks" if window and values["lines"] > window else ""
        words += f" (now {values['errors']} errors in {values['lines']} lines{rounded}"
        found = ", ".join(f"{code} {lines}" for code, lines in list(values["codes"].items())[:3])
        words += f": {found})" if found else ")"
    return words

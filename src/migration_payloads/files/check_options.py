"""The options of the commands that check a file: that of the service, and that of suppliers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from migration_payloads.files.output import OutputPath, replacing
from migration_payloads.moments import DEFAULT_TIME_ZONE, is_time_zone
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json


def _read_time_zone(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not is_time_zone(name):
        raise click.BadParameter(f"{name} is not a time zone: expected a name such as {DEFAULT_TIME_ZONE}.")
    return name


_OPTIONS = (
    click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path)),
    click.option(
        "--profile",
        type=click.Choice([profile.value for profile in Profile]),
        default=Profile.LENIENT.value,
        show_default=True,
        help="strict: warnings count as errors.",
    ),
    click.option("--supplier", metavar="CODE", help="Require every line to name this import supplier."),
    click.option(
        "--time-zone",
        default=DEFAULT_TIME_ZONE,
        show_default=True,
        metavar="NAME",
        callback=_read_time_zone,
        help="The supplier's time zone, which determines today's date.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of processes.  [default: one per processor]",
    ),
    click.option(
        "--totals",
        "totals_file",
        type=OutputPath(),
        metavar="OUT.json",
        help="Also write the totals of the file as control totals, which a batch can be started with.",
    ),
)


def check_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument FILE and the options of checking it to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def write_totals(totals: dict[str, Any], path: Path) -> None:
    """Write control totals as a line of JSON."""
    with replacing(path) as file:
        file.write(encode_json(totals) + b"\n")

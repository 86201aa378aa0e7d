"""`migration-client failed`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from migration_payloads.files.account_numbers import find_meant_number
from migration_payloads.files.output import say, write_raw
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lineage import find_rows, rows_of
from migration_service_client.command.lines import read_lines
from migration_service_client.command.online import Service, online
from migration_service_client.command.runs import Run, digest_file, find_run, journal_of


@click.command()
@click.argument("target", metavar="FILE|BATCH")
@click.option("--code", metavar="CODE", help="Only lines with this error.")
@online()
def failed(*, target: str, code: str | None, service: Service) -> None:
    """Print the lines that failed, as they were sent, of a FILE or of the BATCH with this id.

    Write them to a file, correct them there, and send that file.
    """
    run = find_run(target)
    if run is not None and run.batch_id is None:
        _print(_lines_of(run, Path(target), code), target)
        return
    with service.client() as client:
        _print(client.get_failed_lines(target if run is None else str(run.batch_id), code=code), target)


def _print(lines: Iterable[bytes], target: str) -> None:
    """Print lines, and then on standard error the rows of which they were made, as far as they are known."""
    book, numbers = Path(target.removesuffix(".journal")), []
    for content in lines:
        write_raw(content)
        if rows_of(book).is_file():
            numbers.append(find_meant_number(content))
    for (number, _), rows in find_rows(book, ((number, "") for number in numbers)).items():
        say(f"{number}: {rows}", err=True)


def _lines_of(run: Run, target: Path, code: str | None) -> Iterator[bytes]:
    """Yield the failed lines of single requests from the file, which is beside its journal."""
    file = target if journal_of(target).exists() else target.with_name(run.order["file"])
    if not file.is_file() or digest_file(file) != run.order["sha256"]:
        raise CannotRunError(
            f"{file} is not the file that was sent on {run.began}. Put that one there: the lines of single "
            "requests are only in it."
        )
    wanted = {
        number
        for number, it in run.lines.items()
        if it["status"] == "FAILED" and (code is None or code in {found["code"] for found in it["errors"]})
    }
    return (line.text or line.start for line in read_lines(file) if line.number in wanted)

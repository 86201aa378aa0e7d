"""`migration-client failed`."""

from collections.abc import Iterable
from pathlib import Path

import click

from migration_payloads.files.account_numbers import find_meant_number
from migration_payloads.files.output import say, write_raw
from migration_service_client.command.lineage import find_rows, rows_of
from migration_service_client.command.online import Service, online
from migration_service_client.command.runs import find_batch


@click.command()
@click.argument("target", metavar="FILE|BATCH")
@click.option("--code", metavar="CODE", help="Only lines with this error.")
@online()
def failed(*, target: str, code: str | None, service: Service) -> None:
    """Print the lines that failed, as they were sent, of a FILE or of the BATCH with this id.

    Write them to a file, correct them there, and send that file.
    """
    batch_id = find_batch(target)
    with service.client() as client:
        show_failed(client.get_failed_lines(batch_id, code=code), target)


def show_failed(lines: Iterable[bytes], target: str) -> None:
    """Print lines, and then on standard error the rows of which they were made, as far as they are known."""
    book, numbers = Path(target.removesuffix(".journal")), []
    for content in lines:
        write_raw(content)
        if rows_of(book).is_file():
            numbers.append(find_meant_number(content))
    for (number, _), rows in find_rows(book, ((number, "") for number in numbers)).items():
        say(f"{number}: {rows}", err=True)

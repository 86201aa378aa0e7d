"""The part of `reconcile` about a book: where its money is, and its files."""

import click

from migration_payloads.files.totals import describe_unreadable
from migration_service.cli.output import Record, show_list
from migration_service.services.reconciliation.book_totals import BookTotals, SentBook, is_all_zero

#: Columns that are shown only if a value is not zero.
_RARE = ("waiting", "acknowledged", "repeated", "skipped", "staged")
_OF_FILES = ("given", "file", "difference", "unaccounted")


def show_book(book: BookTotals | None) -> None:
    """Print the totals of a book for people. `book` is None for added data."""
    if book is None:
        return
    click.echo("\nThe book, in accounts, statements, transactions and euros:\n")
    hidden = {name for name in _RARE if is_all_zero(book, name)} | {
        name
        for name in _OF_FILES
        if book.given is None or (name in ("given", "difference") and not book.given)
    }
    rows: list[Record] = [
        {name: getattr(total, name) for name in total.__slots__ if name not in hidden}
        for total in book.totals
    ]
    show_list(rows, as_json=False, nothing="Nothing was sent.")
    if book.unreadable_lines or book.unreadable_amounts:
        unread = describe_unreadable(book.unreadable_lines, book.unreadable_amounts)
        click.echo(f"Among the data that is not staged, {unread}.")
    if book.given is not None:
        _say_whether_given(book)
    else:
        _show_files(book)


def _say_whether_given(book: BookTotals) -> None:
    if book.differing is None:
        click.echo("Control totals: not given, so the file cannot be compared with the supplier's system.")
    elif book.differing:
        click.echo(f"Control totals: {book.differing} do not match the file.")
    elif not book.as_given:
        click.echo("Control totals: they match the part of the file that could be read.")
    else:
        click.echo("Control totals: they match the file.")


def _show_files(book: BookTotals) -> None:
    rows: list[Record] = [
        {
            "file": file.file_name,
            "batch": file.batch_id,
            "sha256": file.file_sha256,
            "bytes": file.file_bytes,
            "control_totals": _result(file),
        }
        for file in book.files
    ]
    show_list(rows, as_json=False, nothing="No file of accounts was sent.")
    if book.contradicted:
        click.echo(
            "Accounts created from a file that does not match its control totals match what was staged, but "
            "not what the supplier meant: see `reconcile --batch`."
        )


def _result(file: SentBook) -> str:
    if file.control_totals_differing is None:
        return "not given"
    if file.control_totals_differing:
        return f"{file.control_totals_differing} differ" + (", sent again" if file.is_superseded else "")
    return "as in the file" if file.control_totals_as_given else "as far as the file can be read"

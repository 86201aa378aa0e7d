"""The rows of which the parts of a book were made: FILE.rows.csv, which `convert` writes beside the book."""

import csv
from collections import defaultdict
from collections.abc import Iterable, Set
from io import TextIOWrapper
from pathlib import Path

from migration_payloads.files.output import is_in_place, replacing

#: An account with a path in it, either of which may be unknown.
Place = tuple[str | None, str | None]


def rows_of(book: Path) -> Path:
    """Return the name of the file that leads from a book to its rows."""
    return book.with_name(f"{book.name}.rows.csv")


def find_rows(book: Path, places: Iterable[Place]) -> dict[Place, str]:
    """Return the file and the row of each place, as far as they are known.

    It is the row of the smallest object around the path that was made of one. If the book was changed after
    it was made, nothing is known.
    """
    wanted = defaultdict(set)
    for account, path in places:
        wanted[account].add(path)
    rows = rows_of(book)
    if not wanted or not rows.is_file() or rows.stat().st_mtime_ns < book.stat().st_mtime_ns:
        return {}
    found: dict[Place, tuple[int, list[str]]] = {}
    with rows.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            account, above = row["account"], row["path"]
            for path in wanted.get(account, ()):
                if above and not f"{path}.".startswith(f"{above}."):
                    continue
                length, texts = found.get((account, path), (-1, []))
                text = f"{row['file']}, row {row['row']}"
                if len(above) >= length:
                    found[account, path] = (len(above), [*texts, text] if len(above) == length else [text])
    return {place: "; ".join(texts) for place, (_, texts) in found.items()}


def copy_rows(book: Path, corrected: Path, shifted: Set[str]) -> None:
    """Write the rows of a book beside the corrected one, without accounts that have lost items of lists."""
    if not rows_of(book).is_file() or is_in_place(corrected):
        return
    with rows_of(book).open(encoding="utf-8", newline="") as file, replacing(rows_of(corrected)) as out:
        text = TextIOWrapper(out, encoding="utf-8", newline="")
        rows = (row for row in csv.reader(file) if row[0] not in shifted)
        csv.writer(text, lineterminator="\n").writerows(rows)
        text.detach()

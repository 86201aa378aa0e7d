"""The rows of a workbook (XLSX), each cell as the text that a person would see without any format."""

import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from migration_service_client.command.errors import CannotRunError

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
#: The built-in formats of dates and times.
_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}


def read_sheet(path: Path, file: IO[bytes], name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a sheet that are there, with their numbers. Without a name, it is the first sheet.

    A formula has the value that was saved with it. Without one, it is its text. Raise CannotRunError if the
    file cannot be read.
    """
    try:
        with zipfile.ZipFile(file) as book:
            yield from _rows(book, path, name)
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, ValueError, IndexError) as error:
        raise CannotRunError(f"{path} cannot be read as a workbook: {error}.") from None


def _rows(book: zipfile.ZipFile, path: Path, name: str) -> Iterator[tuple[int, list[str]]]:
    workbook = _read(book, "xl/workbook.xml")
    sheets = {it.attrib["name"]: it.attrib[_LINK] for it in workbook.iter(f"{_MAIN}sheet")}
    if name and name not in sheets:
        raise CannotRunError(f"{path} has no sheet {name!r}, but {', '.join(sheets)}.")
    targets = {it.attrib["Id"]: it.attrib["Target"] for it in _read(book, "xl/_rels/workbook.xml.rels")}
    target = targets[sheets[name] if name else next(iter(sheets.values()))].removeprefix("/xl/")
    properties = workbook.find(f"{_MAIN}workbookPr")
    since_1904 = properties is not None and properties.get("date1904") in ("1", "true")
    start = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30)
    shared, dates = _shared_texts(book), _date_styles(book)
    with book.open(f"xl/{target}") as stream:
        number = 0
        for _, row in ElementTree.iterparse(stream):
            if row.tag != f"{_MAIN}row":
                continue
            number, cells = int(row.get("r", number + 1)), list[str]()
            for cell in row.iter(f"{_MAIN}c"):
                place = _column(cell.get("r", "")) or len(cells)
                cells += [""] * (place - len(cells))
                cells.append(_text(cell, shared, dates, start))
            yield number, cells
            row.clear()


def _text(cell: ElementTree.Element, shared: list[str], dates: list[bool], start: datetime) -> str:
    kind, value, formula = cell.get("t", "n"), cell.findtext(f"{_MAIN}v"), cell.findtext(f"{_MAIN}f")
    if kind == "inlineStr":
        return "".join(it.text or "" for it in cell.iter(f"{_MAIN}t"))
    if not value:
        return f"={formula}" if formula else ""
    if kind == "s":
        return shared[int(value)]
    if kind != "n":
        return {"1": "true", "0": "false"}[value] if kind == "b" else value
    if dates and dates[int(cell.get("s", "0"))]:
        moment = (start + timedelta(seconds=round(float(value) * 86_400))).isoformat()
        return moment.removesuffix("T00:00:00")
    # A workbook keeps 15 digits, and writes 17.
    return value if value.isdigit() else format(float(value), ".15g")


def _column(place: str) -> int:
    """Return the number of the column of a cell such as AB12, from 0."""
    number = 0
    for letter in place.rstrip("0123456789"):
        number = number * 26 + ord(letter) - 64
    return number - 1 if number else 0


def _shared_texts(book: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in book.namelist():
        return []
    texts = _read(book, "xl/sharedStrings.xml").iter(f"{_MAIN}si")
    return ["".join(it.text or "" for it in text.iter(f"{_MAIN}t")) for text in texts]


def _date_styles(book: zipfile.ZipFile) -> list[bool]:
    if "xl/styles.xml" not in book.namelist():
        return []
    styles = _read(book, "xl/styles.xml")
    own = {
        int(it.attrib["numFmtId"])
        for it in styles.iter(f"{_MAIN}numFmt")
        if any(letter in it.attrib["formatCode"].lower().split("]")[-1] for letter in "dmyhs")
    }
    cells = styles.find(f"{_MAIN}cellXfs")
    return [] if cells is None else [int(it.get("numFmtId", "0")) in _DATES | own for it in cells]


def _read(book: zipfile.ZipFile, name: str) -> ElementTree.Element:
    return ElementTree.fromstring(book.read(name))

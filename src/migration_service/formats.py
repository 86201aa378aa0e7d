"""The formats in which lists are written for programs: NDJSON and CSV."""

import csv
import io
from collections.abc import Iterable
from enum import StrEnum
from typing import Any


class ResultFormat(StrEnum):
    """The formats of results."""

    #: One JSON object per line.
    NDJSON = "ndjson"
    #: With a header. One row for each error and warning, and one for each line without any.
    CSV = "csv"


def write_csv(rows: Iterable[Iterable[Any]]) -> bytes:
    """Return rows of CSV in UTF-8, every cell in quotation marks.

    The cells are exactly the values, for programs. Import them into a spreadsheet as text.
    """
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().encode()

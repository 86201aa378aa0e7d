"""What does not map, by file, row and column."""

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Why a row or a cell was not converted."""

    #: The header lacks a column that the mapping names.
    MISSING_COLUMN = "missing_column"
    #: The row has more or fewer cells than the header.
    RAGGED_ROW = "ragged_row"
    #: Quotes of the row are not closed, or text follows them.
    BROKEN_QUOTES = "broken_quotes"
    #: The cell has U+0000.
    NUL_CHARACTER = "nul_character"
    #: The cell has bytes that the encoding does not have.
    WRONG_ENCODING = "wrong_encoding"
    #: The row's key is empty.
    EMPTY_KEY = "empty_key"
    #: Other rows have the same key and other cells.
    DUPLICATE_KEY = "duplicate_key"
    #: An earlier row has the same cells. This one is not used, and the account is not held back.
    REPEATED_ROW = "repeated_row"
    #: No row of the file above has the key of this one.
    ROW_WITHOUT_PARENT = "row_without_parent"
    #: No `when` of the mapping takes the row.
    NO_CONDITION_MET = "no_condition_met"
    #: The rows of a group differ in what they should have in common.
    ROWS_DIFFER = "rows_differ"
    #: Several rows belong to what can only be there once.
    SEVERAL_ROWS = "several_rows"
    #: The code is not in the list of codes.
    UNKNOWN_CODE = "unknown_code"
    #: This is not a date of the form that the mapping names.
    BAD_DATE = "bad_date"
    #: This is not a number of the form that the mapping names.
    BAD_NUMBER = "bad_number"
    #: This is neither true nor false.
    BAD_BOOLEAN = "bad_boolean"
    #: A spreadsheet took an identifier for a number, and its last digits are lost.
    SPREADSHEET_NUMBER = "spreadsheet_number"


@dataclass(frozen=True, slots=True)
class Problem:
    """One row or cell that does not map. `row` is the line on which the row begins; the header is 1."""

    file: str
    row: int
    column: str | None
    code: Code
    detail: str
    account: str | None = None

    @property
    def holds_back(self) -> bool:
        """Return whether the account of the row is not written."""
        return self.code is not Code.REPEATED_ROW


class CellError(Exception):
    """A cell has no value of its field."""

    def __init__(self, code: Code, detail: str, column: str = "") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.column = column

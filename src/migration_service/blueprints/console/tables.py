"""Tables for phones, where each row is a card and each value has the name of its column."""

import re

from markupsafe import Markup

_COLUMN = re.compile(r'<th scope="col"[^>]*>(.*?)</th>', re.DOTALL)
_ROW = re.compile(r"<tr[ >].*?</tr>", re.DOTALL)
# A cell that spans several columns has no single name.
_CELL = re.compile(r'<(?:td|th scope="row")(?! colspan)(?=[ >])')
_TAG = re.compile(r"<[^>]*>")
_HIDDEN = 'class="visually-hidden"'


def label_cells(table: str) -> Markup:
    """Return the rows of a table with the column name on each cell. The stylesheet shows it.

    Cells get no name if their column's name is only for screen readers.
    """
    head, body = table.split("<tbody>", 1)
    names = ["" if _HIDDEN in it else _TAG.sub("", it).strip() for it in _COLUMN.findall(head)]
    labelled = _ROW.sub(lambda row: _label(row[0], names), body)
    return Markup(f"{head}<tbody>{labelled}")  # noqa: S704  # it was markup before


def _label(row: str, names: list[str]) -> str:
    following = iter(names)

    def label(cell: re.Match[str]) -> str:
        name = next(following, "")
        return f'{cell[0]} data-label="{name}"' if name else cell[0]

    return _CELL.sub(label, row)

"""An empty mapping with every field and its meaning, for a supplier to fill in."""

from collections.abc import Iterator

from marshmallow import Schema
from marshmallow.fields import Nested

from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.fields import FreeObject, Values

_HEAD = """\
# A mapping for `migration-client convert`. Remove the # before what you have.

[format] # for all files; each of [files...] may have its own
delimiter = ";"
encoding = "utf-8" # or cp1252, latin-1, utf-16
decimal = ","
thousands = "."
dates = "DD-MM-YYYY"
empty = ["-", "n/a"] # texts that stand for nothing

[files.customers] # customers.csv, beside this file
key = "number" # the columns that identify a row

# [files.supply]
# path = "exports/connections.csv"

# [codes.supply]
# E = "ELECTRICITY"
# G = "GAS"

# A field is the name of a COLUMN, or a table of:
#   { column = "COLUMN", codes = "supply" }          codes from [codes.supply]
#   { column = "COLUMN", default = "..." }           what an empty cell means
#   { column = "COLUMN", times = -1 }                a number, multiplied
#   { column = ["COLUMN", "COLUMN"], between = " " } columns that are joined
#   { value = "..." }                                the same for all rows
# An object without `from` is made of the row of the object around it. With `from = "supply"` and
# `join = "number"`, there is one for each row of supply with the same number. `group = [...]` makes one
# object of rows that are the same in these columns, and `when = { COLUMN = ["..."] }` takes only some rows.

"""


def template() -> str:
    """Return the mapping."""
    return _HEAD + "\n".join(_table("account", ACCOUNT_IMPORT, "")) + "\n"


def _table(place: str, schema: Schema, mark: str) -> Iterator[str]:
    yield f"{mark}[{place}]"
    if place == "account":
        yield 'from = "customers"'
    for name, field in schema.fields.items():
        if not isinstance(field, Nested | FreeObject):
            column = '["COLUMN"]' if isinstance(field, Values) else '"COLUMN"'
            required = " Required." if field.required else ""
            line_mark = "" if field.required and not mark else "# "
            yield f"{line_mark}{name} = {column} # {field.metadata['meaning']}{required}"
    for name, field in schema.fields.items():
        if isinstance(field, Nested):
            yield ""
            yield from _table(f"{place}.{name}", field.schema, "# ")

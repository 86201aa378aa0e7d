"""The number of a cell, from which the ids of its rows follow, so that they differ between cells.

A cell is an ordinary installation. Its number is nowhere but in its sequences: cell 2 gives ids from
2,000,000,000,000 on. An organisation is therefore copied to another cell with all its ids, and no reference
changes. Its account numbers differ as well, because `services.processing.creation` derives a character of
them from the id. Ids stay below 2^53, so that every JSON reader keeps them exact.
"""

from sqlalchemy import Connection, text

#: The ids of a cell.
IDS = 1_000_000_000_000
#: The largest number of a cell. The first installation has no number, which is 0.
MOST = 31


class CellInUseError(Exception):
    """The database has organisations already, so its ids cannot get another beginning."""


def read_cell(connection: Connection) -> int:
    """Return the number of the cell that has this database."""
    number: int = connection.scalar(_NUMBER, {"ids": IDS}) or 0
    return number


def number_cell(connection: Connection, cell: int) -> None:
    """Let the ids of every table begin with the number of the cell. Raise CellInUseError.

    The role must own the tables. Doing it again changes nothing.
    """
    if cell == read_cell(connection):
        return
    if connection.scalar(text("SELECT EXISTS (SELECT FROM organisation)")):
        raise CellInUseError
    _set(connection, cell)


def number_new_tables(connection: Connection) -> None:
    """Let the ids of tables that a revision has just created begin with the number of the cell."""
    if cell := read_cell(connection):
        _set(connection, cell)


def _set(connection: Connection, cell: int) -> None:
    first, last = cell * IDS + (cell == 0), (cell + 1) * IDS - 1
    for name in connection.scalars(_OTHERS, {"first": first}).all():
        connection.execute(
            text(f"ALTER SEQUENCE {name} MINVALUE {first} MAXVALUE {last} START {first} RESTART")
        )


_NUMBER = text("""
    SELECT min_value / :ids FROM pg_sequences
    WHERE schemaname = current_schema() AND sequencename = 'organisation_id_seq'
""")
_OTHERS = text("""
    SELECT quote_ident(sequencename) FROM pg_sequences
    WHERE schemaname = current_schema() AND min_value <> :first
""")

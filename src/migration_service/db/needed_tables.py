"""Whether the tables are new enough for this code, without loading Alembic."""

from pathlib import Path
from weakref import WeakSet

from sqlalchemy import Connection, Engine, text

#: The newest revision that this code needs. The name of each file begins with its revision.
NEEDED = max(file.name for file in Path(__file__).parent.parent.glob("alembic/versions/[0-9]*.py"))[:4]

# A process asks until the tables were new enough once. They never become older.
_new_enough: "WeakSet[Engine]" = WeakSet()


def are_new_enough(engine: Engine, connection: Connection) -> bool:
    """Return whether the tables of `engine` have the revision that this code needs, or a newer one.

    Old code works on newer tables. New code on older ones would answer 500.
    """
    if engine not in _new_enough:
        if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
            return False
        found = connection.scalar(text("SELECT max(version_num) FROM alembic_version"))
        if found is None or found < NEEDED:
            return False
        _new_enough.add(engine)
    return True


def were_new_enough(engine: Engine) -> bool:
    """Return whether this process has seen once that the tables are new enough."""
    return engine in _new_enough

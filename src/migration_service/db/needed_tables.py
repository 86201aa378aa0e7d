"""The revision of the tables, and whether it is new enough for this code, without loading Alembic."""

from pathlib import Path
from weakref import WeakSet

from sqlalchemy import Connection, Engine, text

#: The revisions that this code knows, the oldest first. The name of each file begins with its revision.
_KNOWN = sorted(file.name[:4] for file in Path(__file__).parent.parent.glob("alembic/versions/[0-9]*.py"))
#: The newest revision, which this code needs.
NEEDED = _KNOWN[-1]

# A process asks until the tables were new enough once. They never become older.
_new_enough: "WeakSet[Engine]" = WeakSet()


def current_revision(connection: Connection) -> str | None:
    """Return the revision of the tables, or None if they do not exist yet."""
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    found: str | None = connection.scalar(text("SELECT max(version_num) FROM alembic_version"))
    return found


def obstacle(found: str | None) -> str | None:
    """Return why this version cannot upgrade tables at the revision `found`, or None if it can."""
    if found is None or found in _KNOWN:
        return None
    return "Only the version that made that revision, or a later one, can upgrade them."


def are_new_enough(engine: Engine, connection: Connection) -> bool:
    """Return whether the tables of `engine` have the revision that this code needs, or a newer one.

    Old code works on newer tables. New code on older ones would answer 500.
    """
    if engine not in _new_enough:
        found = current_revision(connection)
        if found is None or found < NEEDED:
            return False
        _new_enough.add(engine)
    return True


def were_new_enough(engine: Engine) -> bool:
    """Return whether this process has seen once that the tables are new enough."""
    return engine in _new_enough

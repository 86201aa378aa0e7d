"""Names chosen by operators: their form and uniqueness, and that a named row is not in use yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from migration_payloads.schemas.identifiers import name_fault
from migration_service import errors
from migration_service.db.base import Base
from migration_service.db.cancelling import allow_minutes
from migration_service.models import ImportSupplier, OperationsTeam

#: The largest length of the name of an organisation or an operations team.
MAX_NAME = 128


def is_name(text: str, max_length: int = MAX_NAME) -> bool:
    """Return whether `text` is 1 to `max_length` printable characters without a space at either end."""
    return 0 < len(text) <= max_length and text.isprintable() and text == text.strip()


def check_name(text: str, what: str, max_length: int = MAX_NAME) -> None:
    """Raise NameInvalidError unless `text` is a name in normal form, so that different names look different.

    The error calls the named thing `what`.
    """
    if not is_name(text, max_length):
        raise errors.NameInvalidError(
            f"The {what} must have 1 to {max_length} printable characters, and no space at either end."
        )
    if fault := name_fault(text):
        raise errors.NameInvalidError(f"The {what} {errors.quoted(text)} is not in its normal form. {fault}")


@contextmanager
def unique_name(session: Session, constraint: str, detail: str) -> Iterator[None]:
    """Raise NameTakenError if an insert within this block violates `constraint`.

    The session remains usable, because the insert has a separate savepoint. The end of the block flushes it.
    """
    try:
        with session.begin_nested():
            yield
    except IntegrityError as error:
        if _violated(error) != constraint:
            raise
        raise errors.NameTakenError(detail) from error


def require_unused(
    session: Session, row: ImportSupplier | OperationsTeam, what: str, *, remove: bool = False
) -> None:
    """Raise InUseError, which calls it `what`, if other rows refer to this one. Optionally remove it."""
    allow_minutes(session)
    kind = type(row)
    try:
        with session.begin_nested() as removal:
            # The foreign keys know what refers to it.
            removed = delete(kind).where(kind.id == row.id)
            session.execute(removed, execution_options={"synchronize_session": False})
            if not remove:
                removal.rollback()
    except IntegrityError as error:
        raise errors.InUseError(f"{what} is in use: accounts, batches or plans refer to it.") from error


def find_removed(error: IntegrityError, *, in_path: bool) -> errors.ServiceError | None:
    """Return what a request that came a moment later would be told of a supplier or team that it names.

    Somebody removed it while the request was handled. `in_path`: the path has the code of the supplier.
    """
    keys = (it for table in Base.metadata.tables.values() for it in table.foreign_key_constraints)
    referred = next((it.referred_table for it in keys if it.name == _violated(error)), None)
    if referred is OperationsTeam.__table__:
        return errors.OperationsTeamNotFoundError()
    if referred is ImportSupplier.__table__:
        return errors.ImportSupplierNotFoundError() if in_path else errors.ImportSupplierNotFoundInBodyError()
    return None


def _violated(error: IntegrityError) -> str | None:
    diagnosis = getattr(error.orig, "diag", None)
    return getattr(diagnosis, "constraint_name", None)

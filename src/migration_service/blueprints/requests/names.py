"""The names of an import supplier and of an operations team in a body or a query string."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from flask import g
from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.blueprints.requests.resources import resources
from migration_service.services.access.callers import Caller
from migration_service.services.setup import suppliers
from migration_service.services.setup.teams import get_operations_team_id


@contextmanager
def telling_unknown_names(data: Any) -> Iterator[None]:
    """Let a RequestFailedValidationError of this block list the names in `data` that do not exist, too."""
    try:
        yield
    except errors.RequestFailedValidationError as error:
        error.errors += [item for item in find_unknown_names(data) if item not in error.errors]
        raise


def find_unknown_names(data: Any) -> list[errors.ErrorItem]:
    """Return an error for each name in `data` that does not exist, for a request that has other errors."""
    if not isinstance(data, Mapping):
        return []
    with resources().Session.begin() as session:
        return [item for error in _find_unknown(session, data) for item in error.errors]


def supplier_in_body(session: Session, data: Mapping[str, Any]) -> suppliers.KnownSupplier:
    """Return the caller's import supplier with the name in `data`, in which a team may be named, too.

    Raise ImportSupplierNotFoundInBodyError, with the error of the team if that does not exist either, and
    PermissionDeniedError.
    """
    unknown = _find_unknown(session, data)
    if unknown and isinstance(unknown[0], errors.ImportSupplierNotFoundInBodyError):
        unknown[0].errors = [item for error in unknown for item in error.errors]
        raise unknown[0]
    return suppliers.get_import_supplier(session, data["import_supplier"], organisation_id=_organisation_id())


def _find_unknown(session: Session, data: Mapping[str, Any]) -> list[errors.InvalidError]:
    unknown: list[errors.InvalidError] = []
    for name in ("import_supplier", "import_supplier_code"):
        code = data.get(name)
        if isinstance(code, str) and not suppliers.find_import_supplier(
            session, code, organisation_id=_organisation_id()
        ):
            error = errors.ImportSupplierNotFoundInBodyError(found=code)
            error.errors = [replace(item, attr=name) for item in error.errors]
            unknown.append(error)
    if isinstance(team := data.get("operations_team_name"), str):
        try:
            get_operations_team_id(session, _organisation_id(), team)
        except errors.OperationsTeamNotFoundError as error:
            unknown.append(error)
    return unknown


def _organisation_id() -> int:
    return cast(Caller, g.caller).organisation_id

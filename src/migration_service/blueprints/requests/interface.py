"""The blueprints of the interface, for clients with a token, and the import suppliers that requests name."""

from flask import request
from flask_smorest import Blueprint
from sqlalchemy.orm import Session

from migration_payloads.schemas.identifiers import require_identifier
from migration_service.blueprints.requests.auth import caller, require_token
from migration_service.blueprints.requests.body import INTERFACE
from migration_service.blueprints.requests.numbers_in_paths import require_text_in_path
from migration_service.errors import ImportSupplierNotFoundInBodyError
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier

_NAMES = ("import_supplier_code", "external_account_number")


def make_blueprint(name: str, path: str, description: str) -> Blueprint:
    """Return the blueprint of the resource at `path`, below the path of the interface."""
    url_prefix = f"{INTERFACE}{path}".rstrip("/")
    blueprint = Blueprint(name, __name__, url_prefix=url_prefix, description=description)
    blueprint.before_request(require_token)
    # After the token, so that clients without one get no other error.
    blueprint.before_request(_check_names)
    return blueprint


def _check_names() -> None:
    """Raise RequestFailedValidationError if a name in the path is invalid."""
    require_text_in_path()
    for name, text in (request.view_args or {}).items():
        if name in _NAMES:
            require_identifier(text, name)


def supplier_in_path(session: Session, code: str) -> KnownSupplier:
    """Return the caller's import supplier. Raise ImportSupplierNotFoundError and PermissionDeniedError."""
    return get_import_supplier(session, code, organisation_id=caller().organisation_id)


def supplier_in_body(session: Session, code: str) -> KnownSupplier:
    """Return the caller's import supplier. Raise ImportSupplierNotFoundInBodyError, PermissionDeniedError."""
    error = ImportSupplierNotFoundInBodyError
    return get_import_supplier(session, code, organisation_id=caller().organisation_id, error=error)

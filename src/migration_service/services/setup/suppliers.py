"""Import suppliers: what operators set up (section 2.2), and what the callers' requests name.

A caller sees its own organisation's suppliers; another organisation's is the same as none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from migration_service.db.statements import Direct
from migration_service.errors import (
    ImportSupplierNotFoundError,
    ImportSupplierNotFoundInBodyError,
    NameInvalidError,
    quoted,
)
from migration_service.models import ImportSupplier, Organisation
from migration_service.services.access.audit import AuditAction, record
from migration_service.services.access.scopes import require_supplier_allowed
from migration_service.services.setup.names import check_name, is_name, unique_name
from migration_service.services.setup.organisations import get_organisation
from migration_service.states import SupplierStatus

#: Characters of the code of an import supplier.
MAX_CODE = 64


@dataclass(frozen=True, slots=True)
class KnownSupplier:
    """What a request with an account needs to know of its import supplier."""

    id: int
    status: str
    profile: str


_KNOW = """
    SELECT id, status, profile FROM import_supplier
    WHERE organisation_id = %(organisation_id)s AND code = %(code)s
"""

_FIND = select(ImportSupplier).where(
    ImportSupplier.organisation_id == bindparam("organisation_id"), ImportSupplier.code == bindparam("code")
)


def create_import_supplier(
    session: Session,
    *,
    code: str,
    organisation_name: str,
    document_root: str = "",
    profile: str = "lenient",
) -> ImportSupplier:
    """Make an import supplier, which is Ongoing from the start (section 3.1).

    `document_root` is what document paths are resolved against, as `s3://bucket/folder` (section 2.1);
    `profile` is `lenient` or `strict`. Raises NameInvalidError, NameTakenError and
    OrganisationNotFoundError.
    """
    check_name(code, "code of an import supplier", MAX_CODE)
    if "/" in code or code in (".", ".."):
        raise NameInvalidError("The code of an import supplier is a part of paths: no slash, no dots alone.")
    if not document_root.isprintable():
        raise NameInvalidError("The document root must have printable characters only.")
    supplier = ImportSupplier(
        organisation_id=get_organisation(session, organisation_name).id,
        code=code,
        document_root=document_root.strip().rstrip("/"),
        profile=profile,
    )
    with unique_name(session, "uq_import_supplier_code", f"There is an import supplier {code!r} already."):
        session.add(supplier)
    record(
        session,
        AuditAction.SUPPLIER_CREATED,
        "import_supplier",
        code,
        organisation_id=supplier.organisation_id,
        details={"profile": profile},
    )
    return supplier


def find_import_supplier(session: Session, organisation_id: int, code: str) -> ImportSupplier | None:
    """Return the organisation's import supplier of this code, if it exists; `code` may be any text.

    Raise PermissionDeniedError if the caller's key is limited to other suppliers.
    """
    if not is_name(code, MAX_CODE):
        return None
    supplier = session.scalar(_FIND, {"organisation_id": organisation_id, "code": code})
    if supplier is not None:
        require_supplier_allowed(supplier.id, code)
    return supplier


def know_import_supplier(direct: Direct, organisation_id: int, code: str) -> KnownSupplier | None:
    """The same as `find_import_supplier`, for the hot path."""
    if not is_name(code, MAX_CODE):
        return None
    rows = direct.execute(_KNOW, {"organisation_id": organisation_id, "code": code})
    if not rows:
        return None
    require_supplier_allowed(rows[0].id, code)
    return KnownSupplier(*rows[0])


def get_import_supplier(session: Session, organisation_id: int, code: str) -> ImportSupplier:
    """The import supplier that a path names. Raises ImportSupplierNotFoundError (404)."""
    supplier = find_import_supplier(session, organisation_id, code)
    if supplier is None:
        raise ImportSupplierNotFoundError(found=code)
    return supplier


def require_import_supplier(session: Session, organisation_id: int, code: str) -> ImportSupplier:
    """The import supplier that a body names. Raises ImportSupplierNotFoundInBodyError (400)."""
    supplier = find_import_supplier(session, organisation_id, code)
    if supplier is None:
        raise ImportSupplierNotFoundInBodyError(found=code)
    return supplier


def get_any_import_supplier(session: Session, code: str) -> tuple[ImportSupplier, str]:
    """For operators: the import supplier of this code and its organisation's name, whoever owns it.

    Raises ImportSupplierNotFoundError.
    """
    owned = select(ImportSupplier, Organisation.name).join(Organisation)
    found = None
    if is_name(code, MAX_CODE):
        found = session.execute(owned.where(ImportSupplier.code == code)).one_or_none()
    if found is None:
        raise ImportSupplierNotFoundError(f"Import supplier {quoted(code)} does not exist.")
    supplier, organisation_name = found
    return supplier, organisation_name


def list_import_suppliers(session: Session) -> Sequence[tuple[ImportSupplier, str]]:
    """For operators: every import supplier with its organisation's name, by code."""
    owned = select(ImportSupplier, Organisation.name).join(Organisation)
    rows = session.execute(owned.order_by(ImportSupplier.code)).all()
    return [(supplier, organisation_name) for supplier, organisation_name in rows]


def set_status(session: Session, code: str, status: SupplierStatus) -> None:
    """Say what an import supplier takes from now on (section 3.1); any status may follow any other.

    Raises ImportSupplierNotFoundError.
    """
    supplier, _organisation_name = get_any_import_supplier(session, code)
    details = {"status": status.value, "before": supplier.status}
    supplier.status = status
    _record_change(session, AuditAction.SUPPLIER_STATUS_SET, supplier, details)


def set_customer_emails(session: Session, code: str, *, on: bool) -> None:
    """Say whether customers get an e-mail when an account of this supplier is created from now on.

    Raises ImportSupplierNotFoundError.
    """
    supplier, _organisation_name = get_any_import_supplier(session, code)
    supplier.sends_customer_emails = on
    _record_change(session, AuditAction.SUPPLIER_EMAILS_SET, supplier, {"on": on})


def _record_change(
    session: Session, action: AuditAction, supplier: ImportSupplier, details: Mapping[str, object]
) -> None:
    record(
        session,
        action,
        "import_supplier",
        supplier.code,
        organisation_id=supplier.organisation_id,
        details=details,
    )

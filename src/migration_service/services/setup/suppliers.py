"""Import suppliers, which are created by operators and named in requests (section 2.2).

A caller sees the suppliers of its own organisation only. Others do not exist for it.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime
from typing import TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, any_, func, select, update
from sqlalchemy.orm import Session

from migration_payloads.moments import DEFAULT_TIME_ZONE, is_time_zone, today_in, write_moment
from migration_service import errors, models
from migration_service.db.base import one_of
from migration_service.db.sql import SqlConnection, connection_of
from migration_service.models import ApiKey, ImportSupplier, Organisation, WebhookEndpoint
from migration_service.origin import ActorKind, current_origin
from migration_service.services.audit.entries import AuditAction, record, record_about
from migration_service.services.setup.names import check_name, is_name, require_unused, unique_name
from migration_service.services.setup.organisations import get_organisation
from migration_service.states import EmailMoment, SupplierStatus

_Owned = TypeVar("_Owned", models.Batch, models.WavePlan, models.Undo, models.GoLive, models.Certificate)

#: The largest length of the code of an import supplier.
MAX_CODE = 64


@dataclass(frozen=True, slots=True)
class KnownSupplier:
    """The attributes of an import supplier that requests need."""

    id: int
    organisation_id: int
    organisation_name: str
    code: str
    #: A SupplierStatus.
    status: str
    #: A Profile.
    profile: str
    #: The location against which document paths are resolved (section 2.1).
    document_root: str
    sends_customer_emails: bool
    created_at: datetime
    time_zone: str = DEFAULT_TIME_ZONE

    @property
    def today(self) -> date:
        """Return today's date in the supplier's time zone."""
        return today_in(self.time_zone)


_SELECT = """
    SELECT supplier.id, supplier.organisation_id, organisation.name, supplier.code, supplier.status,
           supplier.profile, supplier.document_root, supplier.sends_customer_emails, supplier.created_at,
           supplier.time_zone
    FROM import_supplier supplier JOIN organisation ON organisation.id = supplier.organisation_id
"""
# The code alone is unique; the organisation only determines whether the caller may see the supplier. A web
# process keeps rows in memory for a second, and changes to them wait that long.
FIND_SUPPLIER = f"{_SELECT} WHERE supplier.code = %(code)s"
_BY_ID = f"{_SELECT} WHERE supplier.id = %(id)s"


#: SQL for whether the `supplier` has gone live. It does not use now(), because the transaction may have
#: started before that.
SUPPLIER_IS_LIVE = "(supplier.live_at <= clock_timestamp()) IS TRUE"
#: The same for whether an `account` of the `supplier` has gone live: its owner is `new`.
IS_NEW = "(least(account.live_at, supplier.live_at) <= clock_timestamp()) IS TRUE"


def create_import_supplier(
    session: Session,
    *,
    code: str,
    organisation_name: str,
    document_root: str = "",
    profile: str = "lenient",
    time_zone: str = DEFAULT_TIME_ZONE,
) -> ImportSupplier:
    """Create an import supplier with status Ongoing (section 3.1).

    `document_root` is the location against which document paths are resolved, such as `s3://bucket/folder`
    (section 2.1). `profile` is `lenient` or `strict`, and `time_zone` a name in the IANA database. Raise
    NameInvalidError, NameTakenError and OrganisationNotFoundError.
    """
    _check_code(code)
    if not document_root.isprintable():
        raise errors.NameInvalidError(
            "The document root must consist of printable characters.", attr="document_root"
        )
    _check_time_zone(time_zone)
    supplier = ImportSupplier(
        organisation_id=get_organisation(session, organisation_name).id,
        code=code,
        document_root=document_root.strip().rstrip("/"),
        profile=profile,
        time_zone=time_zone,
    )
    with _unique(session, code):
        session.add(supplier)
    record_about(session, AuditAction.SUPPLIER_CREATED, supplier, {"profile": profile})
    return supplier


def rename_import_supplier(session: Session, code: str, new_code: str) -> None:
    """Give an import supplier another code. Nobody has sent anything for it.

    Raise ImportSupplierNotFoundError, InUseError, NameInvalidError or NameTakenError.
    """
    supplier = _get_row(session, code)
    _check_code(new_code)
    require_unused(session, supplier, f"Import supplier {code!r}")
    record_about(session, AuditAction.SUPPLIER_RENAMED, supplier, {"now": new_code})
    with _unique(session, new_code):
        supplier.code = new_code


def remove_import_supplier(session: Session, code: str) -> None:
    """Remove an import supplier for which nobody has sent anything, and to which nothing is limited.

    It has to be Complete, so that no request uses it while it is removed. Raise ImportSupplierNotFoundError
    or InUseError.
    """
    supplier = _get_row(session, code)
    if supplier.status != SupplierStatus.COMPLETE:
        raise errors.InUseError(
            f"Import supplier {code!r} accepts accounts: set its status to Complete first."
        )
    if supplier.live_at is not None:
        raise errors.InUseError(f"Import supplier {code!r} is in use: it has a moment of go-live.")
    require_unused(session, supplier, f"Import supplier {code!r}", remove=True)
    _require_no_limit_to(session, supplier)
    record_about(session, AuditAction.SUPPLIER_REMOVED, supplier)


def _require_no_limit_to(session: Session, supplier: ImportSupplier) -> None:
    """Raise InUseError with the API keys and webhooks that could reach nothing, or less, without it."""
    is_valid = ApiKey.revoked_at.is_(None), (ApiKey.expires_at > func.now()) | ApiKey.expires_at.is_(None)
    keys = select(ApiKey.prefix).where(any_(ApiKey.import_supplier_ids) == supplier.id, *is_valid)
    webhooks = select(WebhookEndpoint.id).where(
        any_(WebhookEndpoint.import_supplier_ids) == supplier.id, WebhookEndpoint.removed_at.is_(None)
    )
    limited = [f"the API key {it}" for it in session.scalars(keys.order_by(ApiKey.id))]
    limited += [f"the webhook {it}" for it in session.scalars(webhooks.order_by(WebhookEndpoint.id))]
    if limited:
        raise errors.InUseError(
            f"Import supplier {supplier.code!r} is in use: limited to it: {', '.join(limited)}. Revoke these "
            "keys, and remove or change these webhooks, first."
        )


def _get_row(session: Session, code: str) -> ImportSupplier:
    """Return the row, locked, so that nobody removes it before it is changed."""
    known = get_import_supplier(session, code, organisation_id=None)
    row = session.get(ImportSupplier, known.id, with_for_update=True)
    if row is None:
        raise errors.ImportSupplierNotFoundError(found=code)
    return row


def _check_code(code: str) -> None:
    check_name(code, "code of an import supplier", MAX_CODE)
    if "/" in code or code in (".", ".."):
        raise errors.NameInvalidError(
            "The code of an import supplier is part of a path: it cannot contain a slash or be only dots."
        )


def _unique(session: Session, code: str) -> AbstractContextManager[None]:
    return unique_name(session, "uq_import_supplier_code", f"Import supplier {code!r} already exists.")


def find_import_supplier(
    database: Session | SqlConnection, code: str, *, organisation_id: int | None
) -> KnownSupplier | None:
    """Return the import supplier with this code, or None if it does not exist. `code` may be any text.

    Only suppliers of `organisation_id`, the caller's organisation, are found, or of every organisation if it
    is None, for operators. Raise PermissionDeniedError if the caller's key is limited to other suppliers.
    """
    if not is_name(code, MAX_CODE):
        return None
    rows = connection_of(database).execute(FIND_SUPPLIER, {"code": code})
    supplier = KnownSupplier(*rows[0]) if rows else None
    if supplier and organisation_id not in (None, supplier.organisation_id):
        return None
    if supplier:
        require_supplier_allowed(supplier.id, code)
    return supplier


def get_import_supplier(
    database: Session | SqlConnection,
    code: str,
    *,
    organisation_id: int | None,
    error: type[
        errors.ImportSupplierNotFoundError | errors.ImportSupplierNotFoundInBodyError
    ] = errors.ImportSupplierNotFoundError,
) -> KnownSupplier:
    """Return the result of `find_import_supplier`. Raise `error` if there is no such supplier.

    Pass ImportSupplierNotFoundInBodyError if the code was in a body, because its status is 400 instead of
    404.
    """
    supplier = find_import_supplier(database, code, organisation_id=organisation_id)
    if supplier is None:
        if organisation_id is None:
            raise error(f"Import supplier {errors.quoted(code)} does not exist.")
        raise error(found=code)
    return supplier


def get_import_supplier_by_id(database: Session | SqlConnection, import_supplier_id: int) -> KnownSupplier:
    """Return the import supplier that a row refers to."""
    (row,) = connection_of(database).execute(_BY_ID, {"id": import_supplier_id})
    return KnownSupplier(*row)


def require_ongoing(status: str) -> None:
    """Raise ImportSupplierPausedError or ImportSupplierCompleteError unless accounts are accepted (3.1)."""
    if status != SupplierStatus.ONGOING:
        raise refusal_of_supplier(status)


def refusal_of_supplier(status: str) -> errors.InvalidError:
    """Return the error of a supplier that is not Ongoing, and so accepts no accounts."""
    paused = status == SupplierStatus.PAUSED
    return errors.ImportSupplierPausedError() if paused else errors.ImportSupplierCompleteError()


def require_supplier_allowed(import_supplier_id: int, code: str) -> None:
    """Raise PermissionDeniedError if the actor is limited to other import suppliers."""
    origin = current_origin()
    if origin.import_supplier_ids is not None and import_supplier_id not in origin.import_supplier_ids:
        if origin.kind is ActorKind.API_KEY:
            raise errors.PermissionDeniedError(f"The API key may not be used for import supplier {code!r}.")
        raise errors.PermissionDeniedError(f"You may not use import supplier {code!r}.")


def get_owned(
    session: Session,
    model: type[_Owned],
    id_: str,
    error: type[errors.NotFoundError],
    organisation_id: int | None,
) -> _Owned:
    """Return the organisation's row with this id, or any row if the organisation is None, for operators.

    Raise `error` if it does not exist, and PermissionDeniedError if the actor is limited to other suppliers.
    """
    try:
        found = session.get(model, UUID(id_), populate_existing=True)
    except ValueError:
        found = None
    if found is None or organisation_id not in (None, found.organisation_id):
        raise error(found=id_)
    if organisation_id is not None:
        supplier = session.get_one(ImportSupplier, found.import_supplier_id)
        require_supplier_allowed(supplier.id, supplier.code)
    return found


def which_are_owned(
    model: type[models.Batch | models.WavePlan | models.Undo | models.GoLive | models.Certificate],
    organisation_id: int | None,
    import_supplier: str | None,
) -> list[ColumnElement[bool]]:
    """Return the conditions for rows that the actor may see, of this organisation and supplier or of any."""
    owned = [] if organisation_id is None else [model.organisation_id == organisation_id]
    allowed = current_origin().import_supplier_ids
    owned += [] if allowed is None else [one_of(model.import_supplier_id.expression, allowed)]
    return owned + ([] if import_supplier is None else [ImportSupplier.code == import_supplier])


def list_owned(
    session: Session,
    model: type[_Owned],
    *,
    organisation_id: int | None,
    import_supplier: str | None = None,
    only_open: bool = False,
    before: UUID | None = None,
    limit: int = 50,
) -> Sequence[_Owned]:
    """Return the rows older than `before` that the actor may see, as `which_are_owned` says, newest first.

    `only_open` leaves out those that have ended.
    """
    statement = select(model).join(ImportSupplier, ImportSupplier.id == model.import_supplier_id)
    statement = statement.where(*which_are_owned(model, organisation_id, import_supplier))
    if only_open:
        statement = statement.where(model.finished_at.is_(None))
    if before is not None:
        statement = statement.where(model.id < before)
    return session.scalars(statement.order_by(model.id.desc()).limit(limit)).all()


def list_import_suppliers(session: Session) -> Sequence[tuple[ImportSupplier, str]]:
    """Return all import suppliers with their organisation's names, ordered by code, for operators."""
    owned = select(ImportSupplier, Organisation.name).join(Organisation)
    return session.execute(owned.order_by(ImportSupplier.code)).all()


def set_status(session: Session, code: str, status: SupplierStatus) -> None:
    """Set the status of an import supplier (section 3.1). Any status may follow any other.

    Raise ImportSupplierNotFoundError if it does not exist.
    """
    _update(session, code, AuditAction.SUPPLIER_STATUS_SET, status=status)


def set_customer_emails(
    session: Session, code: str, *, on: bool, at: EmailMoment | None = None, moment: datetime | None = None
) -> None:
    """Set whether customers get an e-mail about their account, and when: at `moment` if it is given.

    What is held is released by a sweep if it no longer has to wait. Raise ImportSupplierNotFoundError if the
    supplier does not exist.
    """
    values: dict[str, object] = {"sends_customer_emails": on}
    if at is not None or moment is not None:
        values["emails_at"] = EmailMoment.AT_MOMENT if moment else at
        values["emails_from"] = moment
    told = values if moment is None else values | {"emails_from": write_moment(moment)}
    _update(session, code, AuditAction.SUPPLIER_EMAILS_SET, told, **values)


def set_time_zone(session: Session, code: str, time_zone: str) -> None:
    """Set the time zone that determines today's date for the data of an import supplier.

    Raise NameInvalidError if there is no time zone with this name, and ImportSupplierNotFoundError.
    """
    _check_time_zone(time_zone)
    _update(session, code, AuditAction.SUPPLIER_TIME_ZONE_SET, time_zone=time_zone)


def _check_time_zone(name: str) -> None:
    if not is_time_zone(name):
        detail = f"{errors.quoted(name)} is not a time zone: expected a name as {DEFAULT_TIME_ZONE}."
        raise errors.NameInvalidError(detail, attr="time_zone")


def _update(
    session: Session,
    code: str,
    action: AuditAction,
    told: Mapping[str, object] | None = None,
    **values: object,
) -> None:
    owner = None
    if is_name(code, MAX_CODE):
        statement = update(ImportSupplier).where(ImportSupplier.code == code).values(**values)
        owner = session.scalar(statement.returning(ImportSupplier.organisation_id))
    if owner is None:
        raise errors.ImportSupplierNotFoundError(f"Import supplier {errors.quoted(code)} does not exist.")
    record(session, action, "import_supplier", code, organisation_id=owner, details=told or values)

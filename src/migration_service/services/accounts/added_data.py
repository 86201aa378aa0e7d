"""What all kinds of added data share: finding the account, and the rules for what is added."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeAlias

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.db.statements import OpenTransaction
from migration_service.errors import (
    AccountErasedError,
    AccountNotFoundInBodyError,
    ErrorItem,
    ImportSupplierNotFoundInBodyError,
    RequestFailedValidationError,
    ServiceError,
)
from migration_service.models import Account
from migration_service.models.part import Part, path_of, payload_columns
from migration_service.rules.catalogue import check_account
from migration_service.rules.rule import Finding, Severity
from migration_service.schemas.added_data import AddedDataSchema
from migration_service.schemas.base import find_unknown_fields, limit_errors, load
from migration_service.services.access.callers import Caller
from migration_service.services.setup.suppliers import (
    DEFAULT_TIME_ZONE,
    KnownSupplier,
    find_import_supplier,
    get_import_supplier,
    today_in,
)
from migration_service.states import Profile


@dataclass(frozen=True, slots=True)
class PostedBody:
    """A body that names an account: the data that its schema loaded, and the errors that the schema found."""

    data: dict[str, Any]
    #: An error for each field that the interface does not have.
    unknown_fields: list[ErrorItem] = field(default_factory=list)
    #: Everything is done and then rolled back.
    dry_run: bool = False
    #: The errors of the schema, if they are reported together with those of the account.
    errors: list[ErrorItem] = field(default_factory=list)


def load_posted(schema: AddedDataSchema, payload: Any) -> PostedBody:
    """Return a parsed body as its schema loads it, with the errors of the schema."""
    data, errors = load(schema, payload)
    dry_run = data.pop("dry_run", False)
    # An unknown field at the top level is an error under every profile.
    unknown_fields = [item for item in find_unknown_fields(schema, payload) if item not in errors]
    return PostedBody(data, unknown_fields, dry_run, errors)


@dataclass(frozen=True, slots=True)
class OpenAccount:
    """An imported account to which something is added."""

    id: int
    service_account_number: str
    supplier: KnownSupplier


@dataclass(frozen=True, slots=True)
class Addition:
    """What is to be added to an account: the data of one body, and the errors that are known of it."""

    account: OpenAccount
    data: dict[str, Any]
    errors: list[ErrorItem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Checked:
    """What schema and rules find in a body, without looking at its account."""

    errors: list[ErrorItem] = field(default_factory=list)
    warnings: list[ErrorItem] = field(default_factory=list)

    def raise_errors(self) -> None:
        """Raise RequestFailedValidationError with every error, if there are any."""
        if self.errors:
            raise RequestFailedValidationError(errors=self.errors)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a body that was added: the body of the response, and the warnings of all its items."""

    body: Any
    warnings: list[ErrorItem] = field(default_factory=list)


#: Finds what is wrong with a body, without its account, under a profile and on a day.
Check: TypeAlias = Callable[[PostedBody, Profile, date], Checked]


def open_account(
    session: Session,
    caller: Caller,
    body: PostedBody,
    *,
    lock: bool = True,
    missing: type[ServiceError] = AccountNotFoundInBodyError,
) -> OpenAccount:
    """Return the account that a body names. The status of its supplier matters for new accounts only.

    With `lock` it is locked until the transaction ends, so that additions to one account come one after the
    other. Raise ImportSupplierNotFoundInBodyError, `missing` if the account is not imported, and
    AccountErasedError if its personal data was erased.
    """
    supplier = get_import_supplier(
        OpenTransaction.of(session),
        body.data["import_supplier"],
        organisation_id=caller.organisation_id,
        error=ImportSupplierNotFoundInBodyError,
    )
    statement = select(Account.id, Account.service_account_number, Account.erased_at).where(
        Account.import_supplier_id == supplier.id,
        Account.external_account_number == body.data["external_account_number"],
    )
    if lock:
        # NO KEY: other transactions can still insert rows that only refer to the account.
        statement = statement.with_for_update(key_share=True)
    row = session.execute(statement).one_or_none()
    if row is None:
        raise missing(AccountNotFoundInBodyError.default_detail)
    if row.erased_at is not None:
        raise AccountErasedError
    return OpenAccount(row.id, row.service_account_number, supplier)


def open_accounts(
    session: Session, supplier: KnownSupplier, numbers: Collection[str], *, skip_locked: bool = False
) -> dict[str, OpenAccount | AccountErasedError]:
    """Lock the imported accounts of these external account numbers, and return them by number.

    Their order is the same for everybody, so that two batches cannot wait for each other. With `skip_locked`
    those that somebody else has locked are absent, as are those that do not exist.
    """
    statement = _select_accounts(supplier, numbers).order_by(Account.id)
    rows = session.execute(statement.with_for_update(key_share=True, skip_locked=skip_locked))
    return {
        row.external_account_number: (
            AccountErasedError()
            if row.erased_at
            else OpenAccount(row.id, row.service_account_number, supplier)
        )
        for row in rows
    }


def find_accounts(
    session: Session, supplier: KnownSupplier, numbers: Collection[str]
) -> dict[str, OpenAccount]:
    """Return the imported accounts of these external account numbers that are not erased, by number."""
    rows = session.execute(_select_accounts(supplier, numbers))
    return {
        row.external_account_number: OpenAccount(row.id, row.service_account_number, supplier)
        for row in rows
        if row.erased_at is None
    }


def _select_accounts(
    supplier: KnownSupplier, numbers: Collection[str]
) -> Select[int, str, str, datetime | None]:
    return select(
        Account.id, Account.external_account_number, Account.service_account_number, Account.erased_at
    ).where(
        Account.import_supplier_id == supplier.id,
        one_of(Account.external_account_number.expression, numbers),
    )


def check_form(session: Session, caller: Caller, body: PostedBody, check: Check) -> None:
    """Raise RequestFailedValidationError with what `check` finds, if the form of the body has errors."""
    if body.errors:
        supplier = find_supplier(session, caller, body)
        check(body, *terms_of(supplier)).raise_errors()


def find_supplier(session: Session, caller: Caller, body: PostedBody) -> KnownSupplier | None:
    """Return the supplier that a body names, or None if it names none that exists."""
    code = body.data.get("import_supplier", "")
    return find_import_supplier(session, code, organisation_id=caller.organisation_id)


def terms_of(supplier: KnownSupplier | None) -> tuple[Profile, date]:
    """Return the profile of a supplier, and the day that it is there. Without one, return the usual ones."""
    if supplier is None:
        return Profile.LENIENT, today_in(DEFAULT_TIME_ZONE)
    return Profile(supplier.profile), supplier.today


def resolve_document(supplier: KnownSupplier, document_path: str) -> str:
    """Return the location of a document of a payload, which is below the supplier's root (section 2.1)."""
    return f"{supplier.document_root}/{document_path}" if supplier.document_root else document_path


def part_values(model: type[Part], part: dict[str, Any], supplier: KnownSupplier) -> dict[str, Any]:
    """Return the columns of a model with the values of its part of a body; see `models.part`."""
    values: dict[str, Any] = {}
    for column in payload_columns(model):
        document = column.info.get("document")
        value: Any = part
        for name in document or path_of(column):
            value = None if value is None else value.get(name)
        values[column.name] = resolve_document(supplier, value) if document and value else value
    return values


def find_faults(
    fragment: dict[str, Any],
    profile: Profile,
    today: date,
    *,
    prefix: tuple[str | int, ...],
    below: str,
    without: Collection[str],
    faulty: Collection[str] = (),
) -> list[Finding]:
    """Return what the account's rules find in added data, which `fragment` has in the form of a payload.

    Only findings below `prefix` count, and `below` replaces the prefix in their paths. `without` has the
    codes of rules that are replaced by other checks. `faulty` has the paths, beginning with `below`, of
    values that the schema already refused.
    """
    start = ".".join(map(str, prefix))
    findings = check_account(
        fragment,
        profile=profile,
        today=today,
        faulty=[start + path.removeprefix(below) for path in faulty if path.startswith(below)],
    )
    return [
        Finding((below, *finding.path[len(prefix) :]), finding.code, finding.detail, finding.severity)
        for finding in findings
        if finding.path[: len(prefix)] == prefix and finding.code not in without
    ]


def check_body(body: PostedBody, findings: Sequence[Finding], profile: Profile) -> Checked:
    """Return the errors of the form of a body, all findings, and its unknown fields as errors and warnings.

    Under the strict profile warnings and unknown fields are errors, too.
    """
    strict = profile is Profile.STRICT
    errors = [it.error_item() for it in findings if strict or it.severity is Severity.ERROR]
    if strict:
        return Checked(limit_errors(body.errors + errors + body.unknown_fields))
    warnings = [it.error_item() for it in findings if it.severity is not Severity.ERROR]
    return Checked(limit_errors(body.errors + errors), limit_errors(warnings + body.unknown_fields))

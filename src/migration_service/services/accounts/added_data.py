"""Common functions of all kinds of added data: finding the account, and checking the data."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeAlias

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_payloads.moments import DEFAULT_TIME_ZONE, today_in
from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import check_account
from migration_payloads.rules.rule import Finding, Severity
from migration_payloads.schemas.base import find_unknown_fields, limit_errors, load
from migration_service import errors
from migration_service.db.base import one_of
from migration_service.db.sql import OpenTransaction
from migration_service.errors import ErrorItem
from migration_service.models import Account
from migration_service.models.part import Part, path_of, payload_columns
from migration_service.schemas.added_data import AddedDataSchema
from migration_service.services.access.callers import Caller
from migration_service.services.setup.suppliers import (
    KnownSupplier,
    find_import_supplier,
    get_import_supplier,
)

#: What answers add to the data of a transaction that existed already.
EXISTING = {"status": "TRANSACTION_IMPORT_SUCCESS"}


@dataclass(frozen=True, slots=True)
class PostedBody:
    """A body that names an account: the data loaded by its schema, and the errors found by it."""

    data: dict[str, Any]
    #: An error for each unknown field.
    unknown_fields: list[ErrorItem] = field(default_factory=list)
    #: Whether everything is rolled back at the end.
    dry_run: bool = False
    #: The errors of the schema, if they are to be reported together with those of the account.
    errors: list[ErrorItem] = field(default_factory=list)


def load_posted(schema: AddedDataSchema, payload: Any) -> PostedBody:
    """Load a parsed body with its schema. Return the data and the errors."""
    data, faults = load(schema, payload)
    dry_run = data.pop("dry_run", False)
    # An unknown field at the top level is an error in every profile.
    unknown_fields = [
        item for item in find_unknown_fields(schema, _without_answered(payload)) if item not in faults
    ]
    return PostedBody(data, unknown_fields, dry_run, faults)


def _without_answered(payload: Any) -> Any:
    """Return a body without what answers add to its transactions, which may be sent back as they came."""
    items = payload.get("transactions") if isinstance(payload, dict) else None
    if not isinstance(items, list):
        return payload
    return payload | {
        "transactions": [
            {name: value for name, value in it.items() if (name, value) not in EXISTING.items()}
            if isinstance(it, dict)
            else it
            for it in items
        ]
    }


@dataclass(frozen=True, slots=True)
class OpenAccount:
    """An imported account to which data is added."""

    id: int
    service_account_number: str
    supplier: KnownSupplier


@dataclass(frozen=True, slots=True)
class Addition:
    """Data to add to an account: the contents of one body, and the errors known so far."""

    account: OpenAccount
    data: dict[str, Any]
    errors: list[ErrorItem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings of schema and rules in a body, without its account."""

    errors: list[ErrorItem] = field(default_factory=list)
    warnings: list[ErrorItem] = field(default_factory=list)

    def raise_errors(self) -> None:
        """Raise RequestFailedValidationError with every error, if there are any."""
        if self.errors:
            raise errors.RequestFailedValidationError(errors=self.errors)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of an accepted body: the body of the response, and the warnings of all its items."""

    body: Any
    warnings: list[ErrorItem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Added:
    """The result of adding the items of an accepted body."""

    #: Whether each item was added. The others existed already.
    is_new: list[bool]
    #: Warnings about the items in view of the account.
    warnings: list[ErrorItem] = field(default_factory=list)


#: Returns the findings in a body that do not depend on its account, for a profile and a date.
Check: TypeAlias = Callable[[PostedBody, Profile, date], Checked]


def open_account(
    session: Session,
    caller: Caller,
    body: PostedBody,
    *,
    lock: bool = True,
    missing: type[errors.ServiceError] = errors.AccountNotFoundInBodyError,
) -> OpenAccount:
    """Return the account that a body names, whatever the status of its supplier.

    With `lock` it is locked until the transaction ends, so that additions to one account are sequential.
    Raise ImportSupplierNotFoundInBodyError, `missing` if the account is not imported, and AccountErasedError
    if its personal data was erased.
    """
    supplier = get_import_supplier(
        OpenTransaction.of(session),
        body.data["import_supplier"],
        organisation_id=caller.organisation_id,
        error=errors.ImportSupplierNotFoundInBodyError,
    )
    statement = select(Account.id, Account.service_account_number, Account.erased_at).where(
        Account.import_supplier_id == supplier.id,
        Account.external_account_number == body.data["external_account_number"],
    )
    if lock:
        # NO KEY, so that other transactions can still insert rows that only refer to the account.
        statement = statement.with_for_update(key_share=True)
    row = session.execute(statement).one_or_none()
    if row is None:
        raise missing(errors.AccountNotFoundInBodyError.default_detail)
    if row.erased_at is not None:
        raise errors.AccountErasedError
    return OpenAccount(row.id, row.service_account_number, supplier)


def open_accounts(
    session: Session,
    supplier: KnownSupplier,
    numbers: Collection[str],
    *,
    lock: bool = True,
    skip_locked: bool = False,
) -> dict[str, OpenAccount | errors.AccountErasedError]:
    """Return the imported accounts with these external account numbers by number, locked unless not `lock`.

    They are always locked in the same order, so that two batches cannot deadlock. Accounts that do not exist
    are absent. With `skip_locked`, so are accounts locked by other transactions.
    """
    statement = select(
        Account.id, Account.external_account_number, Account.service_account_number, Account.erased_at
    ).where(
        Account.import_supplier_id == supplier.id, one_of(Account.external_account_number.expression, numbers)
    )
    if lock:
        statement = statement.order_by(Account.id)
        statement = statement.with_for_update(key_share=True, skip_locked=skip_locked)
    rows = session.execute(statement)
    return {
        row.external_account_number: (
            errors.AccountErasedError()
            if row.erased_at
            else OpenAccount(row.id, row.service_account_number, supplier)
        )
        for row in rows
    }


def find_accounts(
    session: Session, supplier: KnownSupplier, numbers: Collection[str]
) -> dict[str, OpenAccount]:
    """Return the imported, unerased accounts with these external account numbers, by number."""
    found = open_accounts(session, supplier, numbers, lock=False)
    return {number: it for number, it in found.items() if isinstance(it, OpenAccount)}


def check_form(session: Session, caller: Caller, body: PostedBody, check: Check) -> None:
    """Raise RequestFailedValidationError with the findings of `check` if the form of the body has errors."""
    if body.errors:
        supplier = find_supplier(session, caller, body)
        check(body, *terms_of(supplier)).raise_errors()


def find_supplier(session: Session, caller: Caller, body: PostedBody) -> KnownSupplier | None:
    """Return the supplier that a body names, or None if it does not exist."""
    code = body.data.get("import_supplier", "")
    return find_import_supplier(session, code, organisation_id=caller.organisation_id)


def terms_of(supplier: KnownSupplier | None) -> tuple[Profile, date]:
    """Return the profile of a supplier and today's date in its time zone, or the defaults for None."""
    if supplier is None:
        return Profile.LENIENT, today_in(DEFAULT_TIME_ZONE)
    return Profile(supplier.profile), supplier.today


def resolve_document(supplier: KnownSupplier, document_path: str) -> str:
    """Return the location of a document of a payload, below the supplier's root (section 2.1)."""
    path = document_path.removeprefix("/")
    return f"{supplier.document_root}/{path}" if supplier.document_root else path


def part_values(model: type[Part], part: dict[str, Any], supplier: KnownSupplier) -> dict[str, Any]:
    """Return the columns of a model with the values from its part of a body; see `models.part`."""
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
    """Return the findings of the account's rules in added data. `fragment` has the form of a payload.

    Only findings below `prefix` count, and `below` replaces the prefix in their paths. `without` is the codes
    of rules replaced by other checks. `faulty` is the paths, starting with `below`, of values that the schema
    already refused.
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
    """Return the errors in the form of a body, all findings, and its unknown fields as errors and warnings.

    Under the strict profile, warnings and unknown fields are errors as well.
    """
    strict = profile is Profile.STRICT
    found: dict[Severity, list[ErrorItem]] = {Severity.ERROR: [*body.errors], Severity.WARNING: []}
    for finding in findings:
        found[finding.severity.under(strict=strict)].append(finding.error_item())
    found[Severity.WARNING.under(strict=strict)] += body.unknown_fields
    return Checked(limit_errors(found[Severity.ERROR]), limit_errors(found[Severity.WARNING]))

"""What all kinds of added data share: finding the account, and the rules for what is added."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

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
from migration_service.schemas.base import limit_errors
from migration_service.services.access.tokens import Caller
from migration_service.services.setup.suppliers import (
    KnownSupplier,
    find_import_supplier,
    get_import_supplier,
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


@dataclass(frozen=True, slots=True)
class OpenAccount:
    """An imported account to which something is added."""

    id: int
    service_account_number: str
    supplier: KnownSupplier
    #: Fields of the body that the interface does not have. They are errors under the strict profile only.
    unknown_fields: list[ErrorItem]


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
        raise missing
    if row.erased_at is not None:
        raise AccountErasedError
    return OpenAccount(row.id, row.service_account_number, supplier, body.unknown_fields)


def check_form(session: Session, caller: Caller, body: PostedBody) -> None:
    """Raise RequestFailedValidationError with every error of the body's form, if its schema found any.

    Under the strict profile the unknown fields at every depth are among them.
    """
    if not body.errors:
        return
    unknown_fields = body.unknown_fields
    if unknown_fields and find_profile(session, caller, body) is not Profile.STRICT:
        unknown_fields = []
    raise RequestFailedValidationError(errors=limit_errors(body.errors + unknown_fields))


def find_profile(session: Session, caller: Caller, body: PostedBody) -> Profile:
    """Return the profile of the supplier that a body names, or LENIENT if it names none that exists."""
    code = body.data.get("import_supplier", "")
    supplier = find_import_supplier(session, code, organisation_id=caller.organisation_id)
    return Profile(supplier.profile) if supplier else Profile.LENIENT


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


def check_fragment(
    fragment: dict[str, Any],
    account: OpenAccount,
    *,
    prefix: tuple[str | int, ...],
    below: str,
    without: Collection[str],
) -> None:
    """Check added data with the account's rules; see `find_faults`.

    Raise RequestFailedValidationError with every error, if there are any.
    """
    profile = Profile(account.supplier.profile)
    findings = find_faults(fragment, profile, prefix=prefix, below=below, without=without)
    raise_findings(findings, account)


def find_faults(
    fragment: dict[str, Any],
    profile: Profile,
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
        today=datetime.now(UTC).date(),
        faulty=[start + path.removeprefix(below) for path in faulty],
    )
    return [
        Finding((below, *finding.path[len(prefix) :]), finding.code, finding.detail, finding.severity)
        for finding in findings
        if finding.path[: len(prefix)] == prefix and finding.code not in without
    ]


def raise_findings(findings: Iterable[Finding], account: OpenAccount) -> None:
    """Raise RequestFailedValidationError with everything that `list_errors` finds, if there is anything."""
    if errors := list_errors(findings, Profile(account.supplier.profile), account.unknown_fields):
        raise RequestFailedValidationError(errors=errors)


def list_errors(
    findings: Iterable[Finding], profile: Profile, unknown_fields: Sequence[ErrorItem]
) -> list[ErrorItem]:
    """Return the errors. Under the strict profile warnings and unknown fields are errors, too."""
    strict = profile is Profile.STRICT
    errors = [it.error_item() for it in findings if strict or it.severity is Severity.ERROR]
    return errors + (list(unknown_fields) if strict else [])

"""What all additions to an account share: finding the account, and the rules over what is added."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.db.statements import Transaction
from migration_service.errors import (
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
from migration_service.services.access.tokens import Caller
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier
from migration_service.states import Profile


@dataclass(frozen=True, slots=True)
class PostedBody:
    """A body that names an account: what its schema loads, and an error for each field it does not know."""

    data: dict[str, Any]
    unknown_fields: list[ErrorItem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OpenAccount:
    """An imported account that something is to be added to."""

    id: int
    service_account_number: str
    supplier: KnownSupplier
    #: What the body has that the interface does not; an error under the strict profile only.
    unknown_fields: list[ErrorItem]


def open_account(
    session: Session,
    caller: Caller,
    body: PostedBody,
    *,
    lock: bool = True,
    missing: type[ServiceError] = AccountNotFoundInBodyError,
) -> OpenAccount:
    """The account that a body names, whatever the status of its supplier: only accounts are refused then.

    With `lock` it is locked until the transaction ends, so that additions to one account come one after the
    other. Raises ImportSupplierNotFoundInBodyError, and `missing` where the account is not imported.
    """
    supplier = get_import_supplier(
        Transaction.of(session),
        body.data["import_supplier"],
        organisation_id=caller.organisation_id,
        error=ImportSupplierNotFoundInBodyError,
    )
    statement = select(Account.id, Account.service_account_number).where(
        Account.import_supplier_id == supplier.id,
        Account.external_account_number == body.data["external_account_number"],
    )
    if lock:
        # NO KEY: rows that only refer to the account are still inserted by others meanwhile.
        statement = statement.with_for_update(key_share=True)
    row = session.execute(statement).one_or_none()
    if row is None:
        raise missing
    return OpenAccount(row.id, row.service_account_number, supplier, body.unknown_fields)


def resolve_document(supplier: KnownSupplier, document_path: str) -> str:
    """Where a document of a payload lies: below the supplier's root (section 2.1)."""
    return f"{supplier.document_root}/{document_path}" if supplier.document_root else document_path


def part_values(model: type[Part], part: dict[str, Any], supplier: KnownSupplier) -> dict[str, Any]:
    """The columns of a model with the values of its part of a body; see `models.part`."""
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
    """Run the account's rules over what is added, laid into `fragment` as in an account payload.

    Only what they find below `prefix` counts, told as a path below `below`; `without` has the codes of rules
    that the addition has its own answer to. Raises RequestFailedValidationError with every error.
    """
    findings = check_account(
        fragment, profile=Profile(account.supplier.profile), today=datetime.now(UTC).date(), faulty=()
    )
    raise_findings(
        (
            Finding((below, *finding.path[len(prefix) :]), finding.code, finding.detail, finding.severity)
            for finding in findings
            if finding.path[: len(prefix)] == prefix and finding.code not in without
        ),
        account,
    )


def raise_findings(findings: Iterable[Finding], account: OpenAccount) -> None:
    """Raise RequestFailedValidationError with all that is an error under the supplier's profile, if any.

    Under the strict one every finding is, and every unknown field.
    """
    strict = account.supplier.profile == Profile.STRICT
    errors = [it.error_item() for it in findings if strict or it.severity is Severity.ERROR]
    errors += account.unknown_fields if strict else []
    if errors:
        raise RequestFailedValidationError(errors=errors)

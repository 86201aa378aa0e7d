"""What all additions to an account share: finding the account, and the rules over what is added."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.errors import AccountMissingError, RequestFailedValidationError, ServiceError
from migration_service.models import Account, ImportSupplier
from migration_service.models.part import Part, path_of, payload_columns
from migration_service.rules.catalogue import check_account
from migration_service.rules.rule import Finding, Profile, Severity
from migration_service.services.import_suppliers import require_import_supplier
from migration_service.services.tokens import Caller


@dataclass(frozen=True, slots=True)
class OpenAccount:
    """An imported account that something is to be added to."""

    id: int
    service_account_number: str
    supplier: ImportSupplier


def open_account(
    session: Session,
    caller: Caller,
    body: dict[str, Any],
    *,
    lock: bool = True,
    missing: type[ServiceError] = AccountMissingError,
) -> OpenAccount:
    """The account that a body names, whatever the status of its supplier: only accounts are refused then.

    With `lock` it is locked until the transaction ends, so that additions to one account come one after the
    other. Raises ImportSupplierUnknownError, and `missing` where the account is not imported.
    """
    supplier = require_import_supplier(session, caller.organisation_id, body["import_supplier"])
    statement = select(Account.id, Account.service_account_number).where(
        Account.import_supplier_id == supplier.id,
        Account.external_account_number == body["external_account_number"],
    )
    if lock:
        # NO KEY: rows that only refer to the account are still inserted by others meanwhile.
        statement = statement.with_for_update(key_share=True)
    row = session.execute(statement).one_or_none()
    if row is None:
        raise missing
    return OpenAccount(row.id, row.service_account_number, supplier)


def resolve_document(supplier: ImportSupplier, document_path: str) -> str:
    """Where a document of a payload lies: below the supplier's root (section 2.1)."""
    return f"{supplier.document_root}/{document_path}" if supplier.document_root else document_path


def part_values(model: type[Part], part: dict[str, Any], supplier: ImportSupplier) -> dict[str, Any]:
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
    supplier: ImportSupplier,
    *,
    prefix: tuple[str | int, ...],
    field: str,
    without: Collection[str],
) -> None:
    """Run the account's rules over what is added, laid into `fragment` as in an account payload.

    Only what they find below `prefix` counts, told as a path below `field`; `without` has the codes of rules
    that the addition has its own answer to. Raises RequestFailedValidationError with every error.
    """
    findings = check_account(
        fragment, profile=Profile(supplier.profile), today=datetime.now(UTC).date(), faulty=()
    )
    raise_findings(
        (
            Finding((field, *finding.path[len(prefix) :]), finding.code, finding.detail, finding.severity)
            for finding in findings
            if finding.path[: len(prefix)] == prefix and finding.code not in without
        ),
        supplier,
    )


def raise_findings(findings: Iterable[Finding], supplier: ImportSupplier) -> None:
    """Raise RequestFailedValidationError with every finding that is an error for this supplier, if any."""
    strict = supplier.profile == Profile.STRICT
    errors = [it.error_item() for it in findings if strict or it.severity is Severity.ERROR]
    if errors:
        raise RequestFailedValidationError(errors=errors)

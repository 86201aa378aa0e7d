"""Validation of an account payload: the schema, then the rules over what is sound (sections 4.1, 7)."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

from migration_service.errors import AccountFailedValidationError, ErrorItem
from migration_service.rules import Finding, Profile, Severity, check_account
from migration_service.schemas.account import ACCOUNT_IMPORT
from migration_service.schemas.base import find_unknown_fields, load
from migration_service.schemas.json import encode_json


@dataclass
class ValidatedAccount:
    """An account payload after validation: its data, and everything that was found wrong with it."""

    #: The data as it is stored; without errors it has every required field.
    data: dict[str, Any]
    errors: list[ErrorItem] = field(default_factory=list)
    warnings: list[ErrorItem] = field(default_factory=list)

    @cached_property
    def json(self) -> bytes:
        """The data as JSON text: what is stored, and the answer of the validate endpoint."""
        return encode_json(self.data)

    @cached_property
    def sha256(self) -> bytes:
        """The hash of the stored text: staging the same again changes nothing."""
        return sha256(self.json).digest()

    def raise_errors(self) -> None:
        """Raise AccountFailedValidationError with every error found, if there is one."""
        if self.errors:
            raise AccountFailedValidationError(errors=self.errors)


def validate_account(payload: Any, profile: Profile) -> ValidatedAccount:
    """Check a parsed payload in full under `profile`; never raises for what is wrong with it."""
    data, errors = load(ACCOUNT_IMPORT, payload)
    account = ValidatedAccount(data, errors)
    findings = check_account(data, profile=profile, today=datetime.now(UTC).date())
    # Where a value failed its own check, what a rule says of its absence would be noise.
    faulty = {error.attr for error in errors}
    for finding in findings:
        item = _error_item(finding)
        if item.attr not in faulty:
            (account.errors if finding.severity is Severity.ERROR else account.warnings).append(item)
    if profile is Profile.STRICT:
        account.errors += find_unknown_fields(ACCOUNT_IMPORT, payload)
    return account


def _error_item(finding: Finding) -> ErrorItem:
    return ErrorItem(finding.code, finding.detail, finding.attr)

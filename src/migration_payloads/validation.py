"""Validation of an account payload: the schema, then the rules for the valid parts (sections 4.1 and 7)."""

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

from migration_payloads.errors import AccountFailedValidationError, ErrorItem
from migration_payloads.moments import DEFAULT_TIME_ZONE, today_in
from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import check_account
from migration_payloads.rules.rule import Severity
from migration_payloads.schemas.account import LoadedAccount, load_account, read_account
from migration_payloads.schemas.base import limit_errors
from migration_payloads.schemas.bounds import MAX_ERRORS
from migration_payloads.schemas.json import encode_json


@dataclass
class ValidatedAccount:
    """An account payload after validation: its data, and all its errors and warnings."""

    #: The data in its stored form. Without errors, it has every required field.
    data: dict[str, Any]
    errors: list[ErrorItem] = field(default_factory=list)
    warnings: list[ErrorItem] = field(default_factory=list)

    @property
    def number(self) -> str:
        """Return the external account number, which every valid payload has."""
        number: str = self.data["external_account_number"]
        return number

    @cached_property
    def json(self) -> bytes:
        """Return the data as JSON text, which is stored, and returned by the validate endpoint."""
        return encode_json(self.data)

    @cached_property
    def sha256(self) -> bytes:
        """Return the hash of the stored text, which identifies a repeated payload."""
        return sha256(self.json).digest()

    def raise_errors(self) -> None:
        """Raise AccountFailedValidationError with every error, if there are any."""
        if self.errors:
            raise AccountFailedValidationError(errors=self.errors, warnings=self.warnings)


def validate_account(payload: Any, profile: Profile, time_zone: str = DEFAULT_TIME_ZONE) -> ValidatedAccount:
    """Check a parsed payload completely under `profile`, with today's date in the time zone.

    Invalid payloads do not raise an error.
    """
    return check_loaded(load_account(payload), profile, time_zone)


def validate_text(text: bytes, profile: Profile, time_zone: str = DEFAULT_TIME_ZONE) -> ValidatedAccount:
    """Check the JSON text of a payload like `validate_account`. Raise ParseError if it is not JSON."""
    return check_loaded(read_account(text), profile, time_zone)


def check_loaded(loaded: LoadedAccount, profile: Profile, time_zone: str) -> ValidatedAccount:
    """Check what the schema loaded by the rules, and return both findings."""
    account = ValidatedAccount(loaded.data, [*loaded.errors])
    if loaded.json is not None:
        account.json = loaded.json
    if not loaded.is_object or len(loaded.errors) > MAX_ERRORS:
        return account
    faulty = [error.attr for error in loaded.errors if error.attr]
    today = today_in(time_zone)
    # Writing the JSON costs less than the searches that it spares the rules.
    for finding in check_account(loaded.data, profile=profile, today=today, faulty=faulty, text=account.json):
        found = account.errors if finding.severity is Severity.ERROR else account.warnings
        found.append(finding.error_item())
    if profile is Profile.STRICT:
        account.errors += loaded.unknown
    else:
        account.warnings += loaded.unknown
    account.errors = limit_errors(account.errors)
    account.warnings = limit_errors(account.warnings)
    return account

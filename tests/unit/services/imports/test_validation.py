"""What the schema and the rules find in a payload together."""

from migration_payloads.profile import Profile
from migration_payloads.schemas.bounds import MAX_ERRORS
from migration_payloads.validation import validate_account


def test_rules_are_checked_until_the_schema_alone_has_found_too_much() -> None:
    account = {"external_account_number": "1", "import_supplier": "S", "unknown_occupier": False}
    # Each empty ledger lacks two fields. A rule finds that the account has no customer.
    for ledgers, listed, last in (
        (MAX_ERRORS // 2 - 1, MAX_ERRORS - 1, "customer_required"),
        (MAX_ERRORS // 2, MAX_ERRORS + 1, "too_many_errors"),
    ):
        errors = validate_account(account | {"ledgers": [{}] * ledgers}, Profile.LENIENT).errors
        assert (len(errors), errors[-1].code) == (listed, last)

"""The account import payload (section 2.3), used by validate, stage and batches."""

from typing import Any

from migration_service.errors import ErrorItem
from migration_service.schemas.base import Fields, load
from migration_service.schemas.compiled import compile_schema
from migration_service.schemas.fields import (
    Day,
    EmailAddress,
    Flag,
    Identifier,
    Object,
    Objects,
    PhoneNumber,
    Text,
)
from migration_service.schemas.ledger import LedgerSchema
from migration_service.schemas.statement import StatementSchema
from migration_service.schemas.supply import SupplyAddressSchema


class CustomerPreferencesSchema(Fields):
    """What a customer agreed to be sent."""

    opted_into_updates = Flag()
    opted_into_offers = Flag()
    opted_into_sms = Flag()


class UserDetailSchema(Fields):
    """A value that the supplier keeps for a customer."""

    namespace = Identifier(required=True)
    value = Text(required=True, blank=True, max_length=2_000)


class CustomerSchema(Fields):
    """A person of the account."""

    given_name = Text(blank=True)
    family_name = Text(blank=True)
    email = EmailAddress()
    mobile = PhoneNumber()
    landline = PhoneNumber()
    date_of_birth = Day()
    customer_preferences = Object(CustomerPreferencesSchema)
    user_details = Objects(UserDetailSchema)


class AccountImportSchema(Fields):
    """One account, as a supplier sends it."""

    external_account_number = Identifier(required=True)
    import_supplier = Identifier(required=True)
    unknown_occupier = Flag(load_default=False, metadata={"example": "false"})
    billing_address1 = Text(blank=True)
    billing_address2 = Text(blank=True)
    billing_address3 = Text(blank=True)
    billing_address4 = Text(blank=True)
    billing_postcode = Text(blank=True, max_length=32)
    customers = Objects(CustomerSchema)
    supply_addresses = Objects(SupplyAddressSchema)
    ledgers = Objects(LedgerSchema)
    statements = Objects(StatementSchema)


#: One instance for the whole process: instantiating costs more than loading.
ACCOUNT_IMPORT = AccountImportSchema()
_accept = compile_schema(ACCOUNT_IMPORT)


def load_account(payload: Any) -> tuple[Any, list[ErrorItem]]:
    """A parsed payload as account data, and every error of its fields; see `schemas.base.load`."""
    data = _accept(payload)
    return (data, []) if data is not None else load(ACCOUNT_IMPORT, payload)

"""The account import payload (section 2.3), used by validate, stage and batches."""

from dataclasses import dataclass, field
from typing import Any

from migration_payloads.errors import ErrorItem
from migration_payloads.schemas import fields
from migration_payloads.schemas.base import Fields, find_unknown_fields, load
from migration_payloads.schemas.bounds import MAX_ERRORS
from migration_payloads.schemas.compiled import compile_schema, compile_shape
from migration_payloads.schemas.json import parse_json
from migration_payloads.schemas.ledger import LedgerSchema
from migration_payloads.schemas.one_pass import compile_text
from migration_payloads.schemas.statement import STATEMENT, StatementSchema
from migration_payloads.schemas.supply import SupplyAddressSchema, address_line, postcode


class CustomerPreferencesSchema(Fields):
    """The messages that a customer has agreed to."""

    opted_into_updates = fields.Flag("The customer agreed to updates about the service.", True)
    opted_into_offers = fields.Flag("The customer agreed to offers.", False)
    opted_into_sms = fields.Flag("The customer agreed to text messages.", False)


class UserDetailSchema(Fields):
    """A value that the supplier keeps for a customer."""

    namespace = fields.NormalIdentifier(
        "The name of the value, unique for the customer.", "loyalty", required=True, personal=False
    )
    value = fields.Text(
        "The value that the supplier keeps.",
        "gold",
        required=True,
        blank=True,
        max_length=2_000,
        personal=True,
    )


class CustomerSchema(Fields):
    """A person on the account."""

    given_name = fields.Text("First name or initials.", "Esmée", blank=True, personal=True)
    family_name = fields.Text("Family name, or the name of a company.", "Mulder", blank=True, personal=True)
    email = fields.EmailAddress("E-mail address. Empty if unknown.", "esmee.mulder@werk.example")
    mobile = fields.PhoneNumber(
        "Telephone number. Without a country prefix it is Dutch. Empty if unknown.", "+31653940257"
    )
    landline = fields.PhoneNumber("A second telephone number, of either kind.", "+31132420868")
    date_of_birth = fields.Day("Date of birth, from 1900 to today.", "1986-04-26", personal=True)
    customer_preferences = fields.Object(
        CustomerPreferencesSchema,
        "The messages that the customer has agreed to.",
        {"opted_into_updates": True},
    )
    user_details = fields.Objects(
        UserDetailSchema,
        "Values that the supplier keeps for the customer.",
        [{"namespace": "loyalty", "value": "gold"}],
    )


class AccountImportSchema(Fields):
    """An account as a supplier sends it."""

    external_account_number = fields.NormalIdentifier(
        "The account's number in the supplier's system. It never changes.",
        "100000038",
        required=True,
        identifying=True,
        erased=False,
    )
    import_supplier = fields.NormalIdentifier(
        "Code of the import supplier, as the operator set it up.",
        "DEMO_SUPPLIER",
        required=True,
        personal=False,
    )
    unknown_occupier = fields.Flag(
        "True if it is unknown who lives there. Leave out the customers in that case. Returned as a boolean.",
        False,
        load_default=False,
        openapi={"type": ["boolean", "string"]},
    )
    billing_address1 = address_line("First line of the billing address: the street.", "Leeuweriklaan")
    billing_address2 = address_line("Second line: house number and addition.", "106")
    billing_address3 = address_line("Third line, for example a building.", "")
    billing_address4 = address_line("Fourth line: the town.", "Tilburg")
    billing_postcode = postcode("billing address")
    customers = fields.Objects(
        CustomerSchema,
        "The people on the account: at least one, unless unknown_occupier is true.",
        [{"given_name": "Esmée", "family_name": "Mulder"}],
    )
    supply_addresses = fields.Objects(
        SupplyAddressSchema,
        "The addresses that energy is supplied to, with their meter points.",
        [{"supply_address1": "Leeuweriklaan", "supply_postcode": "5018 NJ"}],
    )
    ledgers = fields.Objects(
        LedgerSchema,
        "The account's balances with their transactions. Without one, an empty ENERGY_LEDGER is opened.",
        [{"ledger_code": "ENERGY_LEDGER", "ledger_balance": -49.28}],
    )
    statements = fields.Objects(StatementSchema, "The bills from before the migration.", [STATEMENT])


#: One instance for the whole process, because instantiating costs more than loading.
ACCOUNT_IMPORT = AccountImportSchema()
_accept = compile_schema(ACCOUNT_IMPORT)
_has_known_members = compile_shape(ACCOUNT_IMPORT)
_accept_text = compile_text(ACCOUNT_IMPORT)


@dataclass(frozen=True, slots=True)
class LoadedAccount:
    """Account data, and the findings of the schema."""

    data: Any
    #: The supplier code in the payload, even if it is not a valid code.
    import_supplier: Any
    #: All errors of fields.
    errors: list[ErrorItem] = field(default_factory=list)
    #: An item for each unknown field.
    unknown: list[ErrorItem] = field(default_factory=list)
    #: The data as JSON, if it was already written.
    json: bytes | None = None
    #: Whether the payload is an object.
    is_object: bool = True


def read_account(text: bytes) -> LoadedAccount:
    """Return the account data of a payload's JSON text. Raise ParseError if it is not valid JSON."""
    if plain := _accept_text(text):
        data, written = plain
        return LoadedAccount(data, data["import_supplier"], json=written)
    return load_account(parse_json(text))


def load_account(payload: Any) -> LoadedAccount:
    """Return the account data of a parsed payload, as `schemas.base.load` does.

    Unknown fields are not looked for if the payload is not an object or has too many errors.
    """
    data, errors = _accept(payload), list[ErrorItem]()
    if data is None:
        data, errors = load(ACCOUNT_IMPORT, payload)
    if not isinstance(payload, dict):
        return LoadedAccount(data, None, errors, is_object=False)
    is_searched = len(errors) <= MAX_ERRORS and not _has_known_members(payload)
    unknown = find_unknown_fields(ACCOUNT_IMPORT, payload) if is_searched else []
    return LoadedAccount(data, payload.get("import_supplier"), errors, unknown)

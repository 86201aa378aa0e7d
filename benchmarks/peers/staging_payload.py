"""The account payload in pydantic: every field of the interface description, and the rules that matter most.

DESCRIPTION is the file with the description.
"""

import json
import os
import re
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import phonenumbers
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    EmailStr,
    Field,
    StringConstraints,
    create_model,
    model_validator,
)

_SCHEMAS: dict[str, Any] = json.loads(Path(os.environ["DESCRIPTION"]).read_bytes())["components"]["schemas"]
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SIGN = {"PAYMENT": 1, "CREDIT": 1, "CHARGE": -1, "SUPPLY_CHARGE": -1, "REPAYMENT": -1}


def _phone_number(text: str) -> str:
    if text:
        try:
            number = phonenumbers.parse(text, "NL")
        except phonenumbers.NumberParseException:
            raise ValueError("invalid_phone_number") from None
        if not phonenumbers.is_valid_number(number):
            raise ValueError("invalid_phone_number")
    return text


def _document_path(text: str) -> str:
    climbs = any(part in ("", ".", "..") for part in text.split("/"))
    if climbs or "\\" in text or not text.isprintable() or _SCHEME.match(text):
        raise ValueError("invalid_document_path")
    return text


_PHONE_NUMBER = Annotated[str, StringConstraints(max_length=40), AfterValidator(_phone_number)]
_NUMBER = Annotated[Decimal, Field(max_digits=22, decimal_places=10)]
_KINDS: dict[str, Any] = {"object": dict[str, Any], "boolean": bool, "number": _NUMBER, "integer": _NUMBER}
#: Fields with a check of their own.
_CHECKED: dict[str, Any] = {
    "email": EmailStr,
    "mobile": _PHONE_NUMBER,
    "landline": _PHONE_NUMBER,
    "statement_path": Annotated[str, StringConstraints(max_length=1024), AfterValidator(_document_path)],
}


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")

    def check(self) -> None:
        """Raise ValueError if a rule across the fields does not hold."""

    @model_validator(mode="after")
    def _check(self) -> Any:
        self.check()
        return self


def _require(holds: bool, code: str) -> None:
    if not holds:
        raise ValueError(code)


def _require_unique(values: list[Any], code: str) -> None:
    _require(len(set(values)) == len(values), code)


class _Customer(_Model):
    def check(self: Any) -> None:
        _require(not self.date_of_birth or self.date_of_birth <= date.today(), "date_of_birth_in_future")


class _Meter(_Model):
    def check(self: Any) -> None:
        _require_unique([it.register_id for it in self.registers or ()], "meter_with_duplicate_register_ids")


class _MeterPoint(_Model):
    def check(self: Any) -> None:
        agreements = self.agreements or ()
        _require(all(it.supply_type == self.supply_type for it in agreements), "supply_type_mismatch")
        _require_unique([it.effective_from for it in agreements], "overlapping_agreements")
        for periods in (
            self.energy_meter_point_configuration_periods,
            self.energy_meter_point_grid_operator_effective_periods,
            self.billing_configuration_periods,
        ):
            _require_unique([it.start_date for it in periods or ()], "duplicate_period_start")
        for it in self.billing_configuration_periods or ():
            _require(not it.end_date or it.end_date > it.start_date, "start_date_later_than_end_date")
        for it in self.estimated_annual_volumes or ():
            _require(not it.end_at or it.end_at > it.start_at, "start_date_later_than_end_date")


class _LineItem(_Model):
    def check(self: Any) -> None:
        is_open = not (self.start_date and self.end_date)
        _require(is_open or self.end_date >= self.start_date, "start_date_later_than_end_date")


class _Transaction(_Model):
    def check(self: Any) -> None:
        refs = [it.params.ref for it in self.line_items or () if it.params and it.params.ref]
        _require_unique(refs, "duplicate_line_item_refs")
        for tax in self.tax_items or ():
            known = not (tax.params and tax.params.vat_on) or tax.params.vat_on in refs
            _require(known, "unknown_vat_reference")


class _Ledger(_Model):
    def warnings(self: Any) -> list[str]:
        if self.last_settlement_balance is None:
            return []
        moved = [_SIGN[it.type] * it.amount for it in self.transactions_in_open_settlement_period or ()]
        difference = self.last_settlement_balance + sum(moved, Decimal(0)) - self.ledger_balance
        return ["balance_mismatch_on_ledger_balance"] * (abs(difference) > Decimal("0.005"))


class _Statement(_Model):
    def check(self: Any) -> None:
        in_order = self.bill_period_from_date <= self.bill_period_to_date
        _require(in_order, "start_date_later_than_end_date")


class _AccountImport(_Model):
    def check(self: Any) -> None:
        _require(bool(self.customers or self.unknown_occupier), "customer_required")
        ledgers = self.ledgers or ()
        points = [it for address in self.supply_addresses or () for it in address.meter_points or ()]
        _require_unique([(it.ean, it.supply_type) for it in points], "duplicate_meter_points_provided")
        identifiers = [ean for ledger in ledgers for ean in ledger.identifiers or ()]
        _require({it.ean for it in points}.issuperset(identifiers), "unknown_ledger_identifiers")
        _require_unique(identifiers, "duplicate_identifiers_entries_found")
        _require_unique([it.ledger_code for it in ledgers], "duplicate_ledger_entries_found")
        transactions = [
            it.transaction_id
            for ledger in ledgers
            for items in (
                ledger.transactions_in_open_settlement_period,
                ledger.historical_statement_transactions,
            )
            for it in items or ()
        ]
        _require_unique(transactions, "duplicate_transaction_ids")
        _require_unique([it.statement_id for it in self.statements or ()], "duplicate_statement_ids")

    def warnings(self: Any) -> list[str]:
        return [code for ledger in self.ledgers or () for code in ledger.warnings()]


_RULES: dict[str, type[_Model]] = {
    name.removeprefix("_"): it
    for name, it in globals().items()
    if isinstance(it, type) and issubclass(it, _Model)
}


@cache
def _model(name: str) -> type[BaseModel]:
    """Return the model of a schema of the description."""
    schema = _SCHEMAS[name]
    required = schema.get("required", ())
    fields: dict[str, Any] = {}
    for field, described in schema["properties"].items():
        kind = _CHECKED.get(field) or _kind(described)
        fields[field] = (kind, ...) if field in required else (kind | None, None)
    return create_model(name, __base__=_RULES.get(name, _Model), **fields)


def _kind(schema: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return _model(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return Literal[tuple(value for value in schema["enum"] if value is not None)]
    first = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if first == "array":
        return list[_kind(schema["items"])]
    if first == "string" and schema.get("format") != "date" and "T" not in schema.get("pattern", ""):
        lengths = {"min_length": schema.get("minLength"), "max_length": schema.get("maxLength")}
        return Annotated[str, StringConstraints(**lengths, pattern=schema.get("pattern"))]
    return _KINDS.get(first) or (date if "format" in schema else datetime)


Account = _model("AccountImport")

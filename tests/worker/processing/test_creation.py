"""Account creation: the tables have every value of a payload exactly."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.db.base import Base
from migration_service.models import Account, MeterPoint
from migration_service.models.part import Part, parent_column, parts_of, path_of, payload_columns, table_of
from migration_service.schemas.account import AccountImportSchema
from migration_service.schemas.fields import Object
from migration_service.schemas.json import encode_json, parse_json
from migration_service.services.accounts.reading import find_account, read_account
from migration_service.services.processing.creation import (
    is_service_account_number,
    new_service_account_number,
)
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient


def _create(supplier: SupplierClient, resources: WorkerResources, account: dict[str, Any]) -> dict[str, Any]:
    number = account["external_account_number"]
    assert supplier.stage(account).status_code == 201
    assert supplier.process(number).status_code == 202
    assert perform_attempt(resources.Session, supplier.current_attempt(number))
    with supplier.Session() as session:
        found = find_account(session, supplier.known().id, number)
        assert found is not None
        created: dict[str, Any] = parse_json(encode_json(read_account(session, found)))
    return created


def _plain(value: Any) -> Any:
    """Return a payload as it must be in the tables: numbers as Decimals, without empty values."""
    if isinstance(value, dict):
        below = {key: _plain(item) for key, item in value.items()}
        return {key: item for key, item in below.items() if item not in (None, {}, [])}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return Decimal(value)
    return value


_NUMBER_TEXTS = ("total_monthly_advance_amount", "forecast_annual_consumption", "forecast_annual_generation")


def _without_what_was_added(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: str(item) if key in _NUMBER_TEXTS else _without_what_was_added(item)
            for key, item in value.items()
            if not key.endswith("_location") and key not in ("service_account_number", "created_at")
        }
    return [_without_what_was_added(item) for item in value] if isinstance(value, list) else value


def test_every_value_of_generated_payloads_is_in_the_tables(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    for account in supplier.accounts(40):
        created = _create(supplier, worker_resources, account)
        sent = parse_json(encode_json(account))
        sent["unknown_occupier"] = sent["unknown_occupier"] == "true"
        sent.pop("import_supplier")
        assert _plain(_without_what_was_added(created)) == _plain(sent)


def _rows_below(session: Session, model: type[Base], keys: Sequence[int]) -> list[Any]:
    """Return the values of all rows of the parts, in an order of their own."""
    found = []
    for part in parts_of(model):
        parent = table_of(part).c[parent_column(part).name]
        rows = session.scalars(select(part).where(parent.in_(keys))).all()
        ordered = sorted((keys.index(getattr(row, parent.name)), _values(row), row.id) for row in rows)
        found += [values for _, values, _ in ordered]
        found += _rows_below(session, part, [key for *_, key in ordered])
    return found


def _values(row: Base) -> list[str]:
    columns = [it for it in table_of(type(row)).columns if it.name != "id" and not it.foreign_keys]
    given = ("external_account_number", "service_account_number", "created_at")
    return [f"{it}: {getattr(row, it.name)!r}" for it in columns if it.name not in given]


def test_a_batch_writes_the_same_rows_as_requests(
    batches: BatchClient, worker_resources: WorkerResources
) -> None:
    supplier = batches.supplier
    accounts = supplier.accounts(40)
    batches.run(it | {"external_account_number": f"again {place}"} for place, it in enumerate(accounts))
    for place, account in enumerate(accounts):
        _create(supplier, worker_resources, account)
        with supplier.Session() as session:
            numbers = (account["external_account_number"], f"again {place}")
            found = [find_account(session, supplier.known().id, number) for number in numbers]
            by_request, by_batch = (
                [_values(it), *_rows_below(session, Account, [it.id])] for it in found if it
            )
        assert by_batch == by_request
        assert len(by_batch) > 3


def test_a_new_number_has_the_form_that_is_recognised() -> None:
    assert all(is_service_account_number(new_service_account_number()) for _ in range(100))
    for text in ("A-1234567", "A-123456789", "B-12345678", "A-1234567a", "A-12345678 ", "ask the database"):
        assert not is_service_account_number(text)


def test_amounts_keep_every_digit(supplier: SupplierClient, worker_resources: WorkerResources) -> None:
    account = {
        "external_account_number": "digits",
        "import_supplier": supplier.code,
        "unknown_occupier": "true",
        "ledgers": [
            {
                "ledger_code": "ENERGY_LEDGER",
                "ledger_balance": Decimal("-123456789012.0123456789"),
                "last_settlement_balance": Decimal("0.10"),
            }
        ],
    }
    created = _create(supplier, worker_resources, account)
    (ledger,) = created["ledgers"]
    assert str(ledger["ledger_balance"]) == str(account["ledgers"][0]["ledger_balance"])  # type: ignore[index]
    assert str(ledger["last_settlement_balance"]) == "0.10"


def test_document_paths_are_resolved_below_the_suppliers_root(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    account = next(it for it in supplier.accounts(20) if it.get("statements"))
    for number, statement in enumerate(account["statements"]):
        statement["statement_path"] = f"statements/{number}.pdf"
    created = _create(supplier, worker_resources, account)
    for number, statement in enumerate(created["statements"]):
        path = statement["statement_path"]
        assert path == f"statements/{number}.pdf"
        assert statement["statement_location"] == f"s3://bucket/{supplier.code}/{path}"


def test_an_account_without_ledgers_gets_an_energy_ledger(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    account = {
        "external_account_number": "bare",
        "import_supplier": supplier.code,
        "unknown_occupier": "true",
        "ledgers": [],
    }
    created = _create(supplier, worker_resources, account)
    assert created["ledgers"] == [{"ledger_code": "ENERGY_LEDGER", "ledger_balance": 0}]


def _schema_paths(schema: Any) -> set[tuple[str, ...]]:
    """Yield the single values of a schema, including those of objects without a table."""
    tables = {source.key for model in _all_parts() for source in model.sources}
    paths: set[tuple[str, ...]] = set()
    for name, field in schema.fields.items():
        if isinstance(field, Object) and name not in tables:
            paths |= {(name, *path) for path in _schema_paths(field.schema)}
        elif name not in tables:
            paths.add((name,))
    return paths


def _all_parts() -> list[type[Part]]:
    return Part.__subclasses__()


def test_each_field_has_its_column_and_each_column_its_field() -> None:
    compared = 0

    def compare(model: Any, schema: Any) -> None:
        nonlocal compared
        columns = {path_of(column) for column in payload_columns(model) if "document" not in column.info}
        for below in parts_of(model):
            for source in below.sources:
                compare(below, schema.fields[source.key].schema)
        if issubclass(model, Part):
            assert columns == _schema_paths(schema), model
        compared += 1

    account = MeterPoint.sources[0].parent.sources[0].parent  # type: ignore[attr-defined]
    compare(account, AccountImportSchema())
    assert compared > len(_all_parts())

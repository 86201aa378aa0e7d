"""Account creation: the tables have every value of a payload exactly."""

import re
from decimal import Decimal
from typing import Any

from sqlalchemy import text

from migration_payloads.schemas.account import AccountImportSchema
from migration_payloads.schemas.fields import Object
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.models import Account
from migration_service.models.part import Part, parts_of, path_of, payload_columns
from migration_service.services.accounts.reading import find_account, read_account
from migration_service.services.processing import creation
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient


def _read(supplier: SupplierClient, number: str) -> dict[str, Any]:
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


#: What two accounts with one payload do not have in common.
_OWN = re.compile(rb'"(external_account_number|service_account_number|created_at)":"[^"]*"')


def test_every_value_of_generated_payloads_is_in_the_tables(
    batches: BatchClient, worker_resources: WorkerResources
) -> None:
    supplier = batches.supplier
    accounts = supplier.accounts(40)
    batches.run(it | {"external_account_number": f"again {place}"} for place, it in enumerate(accounts))
    with supplier.Session.begin() as session:  # moves rows, as a vacuum can: where they are says nothing
        session.execute(text("UPDATE transaction SET position = position WHERE period = 'OPEN'"))
    for place, account in enumerate(accounts):
        number = account["external_account_number"]
        assert supplier.stage(account).status_code == 201
        assert supplier.process(number).status_code == 202
        assert perform_attempt(worker_resources.Session, supplier.current_attempt(number))
        created = _read(supplier, number)
        # A batch writes the same as a request.
        as_line = _read(supplier, f"again {place}")
        assert _OWN.sub(b"", encode_json(created)) == _OWN.sub(b"", encode_json(as_line))
        sent = parse_json(encode_json(account))
        sent["unknown_occupier"] = sent["unknown_occupier"] == "true"
        sent.pop("import_supplier")
        assert _plain(_without_what_was_added(created)) == _plain(sent)


def test_a_new_number_has_the_form_that_is_recognised() -> None:
    assert all(creation.is_service_account_number(creation.new_service_account_number()) for _ in range(100))
    for number in ("A-1234567", "A-123456789", "B-12345678", "A-1234567a", "A-12345678 ", "ask the database"):
        assert not creation.is_service_account_number(number)


def _schema_paths(schema: Any) -> set[tuple[str, ...]]:
    """Yield the single values of a schema, including those of objects without a table."""
    tables = {source.key for model in Part.__subclasses__() for source in model.sources}
    paths: set[tuple[str, ...]] = set()
    for name, field in schema.fields.items():
        if isinstance(field, Object) and name not in tables:
            paths |= {(name, *path) for path in _schema_paths(field.schema)}
        elif name not in tables:
            paths.add((name,))
    return paths


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

    compare(Account, AccountImportSchema())
    assert compared > len(Part.__subclasses__())

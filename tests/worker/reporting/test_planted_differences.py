"""Reconciliation finds every kind of difference between a payload and its account, and nothing else."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text

from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json
from migration_payloads.validation import validate_text
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.reconciliation import created_accounts
from migration_service.services.reporting.retention import remove_payloads
from support import planted_differences
from support.batch_client import BatchClient, counts
from support.mutations import places
from support.supplier_client import SupplierClient
from support.vendor_servers import make_sandbox_vendor


def test_each_kind_of_difference_is_found_in_its_account_and_nowhere_else(
    batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted_ones = [*planted_differences.PLANTED, *planted_differences.plant_in_each_column()]
    others = [planted for planted in planted_ones if planted.other]
    accounts = planted_differences.make_book(batches.supplier.code, len(planted_ones) + len(others))
    SupplierClient.create(batches.supplier.app, batches.supplier.Session)  # to which an account is moved
    assert batches.run(accounts)["counts"]["IMPORTED"] == len(accounts)
    before = batches.supplier.reconcile()
    assert (before["clean"], before["compared"], before["differences"]) == (True, len(accounts), [])
    numbers = [account["external_account_number"] for account in accounts]
    expected: dict[str, Sequence[str]] = {}
    with batches.supplier.Session.begin() as session:
        for number, planted in zip(numbers, planted_ones, strict=False):
            other = numbers[len(planted_ones) + others.index(planted)] if planted.other else number
            planted_differences.plant(session, planted, number, other)
            expected |= {number: planted.paths} | ({other: planted.other} if planted.other else {})
    expected = {number: sorted(paths) for number, paths in expected.items() if paths}
    after = batches.supplier.reconcile()
    assert {
        it["external_account_number"]: sorted(value["path"] for value in it["values"])
        for it in after["differences"]
    } == expected
    assert (after["clean"], after["created_clean"], after["complete"]) == (False, False, True)
    assert (after["differing"], after["compared"]) == (len(expected), len(accounts))
    monkeypatch.setattr(created_accounts, "PAYLOADS", 10_000)
    again = batches.supplier.reconcile()
    assert [again[name] for name in ("differences", "totals")] == [after["differences"], after["totals"]]


def test_each_kind_of_difference_of_added_data_is_found_or_named_as_not_compared(
    batches: BatchClient, sandbox_url: str
) -> None:
    accounts = batches.supplier.accounts(len(planted_differences.PLANTED_ADDED))
    numbers = [str(account["external_account_number"]) for account in accounts]
    assert counts(batches.run(accounts)) == {"IMPORTED": len(accounts)}
    for kind, members in _added(make_sandbox_vendor(batches.supplier.Session, sandbox_url)).items():
        report = batches.run([batches.line(number, **members) for number in numbers], kind=kind)
        assert counts(report) == {"ADDED": len(numbers)}, batches.results(report["batch_id"])[0]["errors"]
    before = batches.supplier.reconcile()
    assert (before["clean"], before["differences"]) == (True, [])
    with batches.supplier.Session.begin() as session:
        for number, (statement, _) in zip(numbers, planted_differences.PLANTED_ADDED, strict=True):
            planted_differences.plant_in_added(session, statement, batches.supplier.code, number)
    found: dict[str, set[str]] = {number: set() for number in numbers}
    report = batches.supplier.reconcile()
    for account in report["differences"]:
        shown = found[account["external_account_number"]]
        shown |= {it["measure"] for it in account["differences"]}
        shown |= {it["path"].rstrip("0123456789.") for it in account["values"]}  # of an item, its list
    assert [
        (statement, found[number])
        for number, (statement, _) in zip(numbers, planted_differences.PLANTED_ADDED, strict=True)
    ] == (planted_differences.PLANTED_ADDED)
    assert any(it.startswith("data added to accounts later") for it in report["not_compared"])


def _added(vendor: str) -> dict[str, dict[str, Any]]:
    """Return what is added to each account, by the kind of the batch."""
    transaction = {"type": "PAYMENT", "transaction_date": "2026-10-01", "amount": "10.00"}
    statement = {
        **{"bill_period_from_date": "2026-08-01", "bill_period_to_date": "2026-08-31"},
        **{"issued_date": "2026-09-01", "gross_amount": 1210},
    }
    note = {
        "created_at": "2026-01-01T00:00:00Z",
        "document_paths": [{"document_path": "a.pdf"}, {"document_path": "b.pdf"}],
    }
    return {
        "transactions": {"transactions": [transaction | {"transaction_id": it} for it in ("T-1", "T-2")]},
        "statements": {"statements": [statement | {"statement_id": "S-1", "number": "N-1"}]},
        "notes": {"notes": [note]},
        "payment-instructions": {"vendor": vendor, "type": "CARD", "reference": "card-ok-1"},
    }


#: Changes of an account together with its payload: the path there, the value, the table and its column.
_ALIKE: list[tuple[str, Any, str, str]] = [
    ("customers,0,family_name", "Molenaar", "customer", "family_name"),
    ("customers,0,date_of_birth", "1980-01-02", "customer", "date_of_birth"),
    ("supply_addresses,0,meter_points,0,ean", "871687120000000017", "meter_point", "ean"),
    ("ledgers,1,ledger_balance", 251, "ledger", "ledger_balance"),
    ("statements,0,issued_date", "2026-01-02", "statement", "issued_date"),
]


def test_what_is_changed_on_both_sides_alike_is_found(batches: BatchClient) -> None:
    code = batches.supplier.code
    accounts = planted_differences.make_book(code, 2 * len(_ALIKE) + 4)
    numbers = [it["external_account_number"] for it in accounts]
    singly = numbers[len(_ALIKE) : 2 * len(_ALIKE)]
    for account in accounts:
        if account["external_account_number"] in singly:
            assert batches.supplier.stage(account).status_code == 201
    by_file = [it for it in accounts if it["external_account_number"] not in singly]
    assert counts(batches.run(by_file)) == {"IMPORTED": len(by_file)}
    assert batches.post(None, source="pending").status_code == 202
    batches.work()
    renumbered, robbed, kept, renewed = numbers[-4:]

    def change(number: str, statement: str, **values: Any) -> None:
        with batches.supplier.Session.begin() as session:
            of_account = "SELECT id FROM account_import_process WHERE external_account_number = :number"
            of_account += " AND import_supplier_id = (SELECT id FROM import_supplier WHERE code = :code)"
            mine = f"SELECT id FROM account WHERE account_import_process_id = ({of_account})"  # noqa: S608
            done = text(statement.replace("PROCESS", of_account).replace("ACCOUNT", mine))
            session.execute(done, {"number": number, "code": code} | values)

    def remove_payload(number: str) -> None:
        old = "account_created_at = '2020-01-01'"
        change(number, f"UPDATE account_import_process SET {old} WHERE id = (PROCESS)")  # noqa: S608
        with batches.supplier.Session.begin() as session:
            assert remove_payloads(session, after_days=1_000) == 1

    expected: dict[str, set[str]] = {}
    for place, (path, value, table, column) in enumerate(_ALIKE):
        for number in (numbers[place], singly[place]):
            rows = "account_pk = (ACCOUNT)"
            if table == "meter_point":
                rows = f"supply_address_pk IN (SELECT id FROM supply_address WHERE {rows})"  # noqa: S608
            set_value = "SET payload = jsonb_set(payload, CAST(:path AS text[]), CAST(:value AS jsonb))"
            change(
                number,
                f"UPDATE account_import_process {set_value} WHERE id = (PROCESS)",
                path=f"{{{path}}}",
                value=encode_json(value).decode(),
            )
            where = f"{rows} AND position = {path.split(',')[1]}"
            cast = f"CAST(:value AS {_TYPES.get(column, 'text')})"
            change(number, f"UPDATE {table} SET {column} = {cast} WHERE {where}", value=str(value))  # noqa: S608
        expected |= {numbers[place]: {path.replace(",", ".")}, singly[place]: {"contents"}}
    # A number that nobody was told.
    for table, rows in (("account", "id = (ACCOUNT)"), ("account_import_process", "id = (PROCESS)")):
        forged = "service_account_number = 'A-FORGED00'"
        change(renumbered, f"UPDATE {table} SET {forged} WHERE {rows}")  # noqa: S608
    expected[renumbered] = {"service_account_number"}
    # Once a payload is removed, its account is compared with what it was then.
    remove_payload(kept)
    remove_payload(robbed)
    report = batches.supplier.reconcile()
    assert (report["compared"], report["not_comparable"]) == (len(accounts), 0)
    assert _paths(report) == expected
    more = "ledger_balance = ledger_balance - 1000000 WHERE account_pk = (ACCOUNT) AND position = 0"
    change(robbed, f"UPDATE ledger SET {more}")  # noqa: S608
    expected[robbed] = {"ledgers.0.ledger_balance"}
    assert _paths(batches.supplier.reconcile()) == expected
    # One that differed cannot be compared from then on, and that is a problem.
    change(renewed, "UPDATE customer SET family_name = 'Visser' WHERE account_pk = (ACCOUNT)")
    remove_payload(renewed)
    report = batches.supplier.reconcile()
    assert {it["problem"]: it["number"] for it in report["problems"]} == {
        "DIFFERING": len(expected),
        "NOT_COMPARABLE": 1,
    }


_TYPES = {"date_of_birth": "date", "issued_date": "date", "ledger_balance": "numeric"}


def _paths(report: dict[str, Any]) -> dict[str, set[str]]:
    """Return where each account differs: the paths, or measures if there are none."""
    return {
        it["external_account_number"]: {value["path"] for value in it["values"]}
        or {value["measure"] for value in it["differences"]}
        for it in report["differences"]
    }


#: Values that are accepted and written in another way than usual.
_UNUSUAL = [
    "",
    " x",
    "x ",
    "e\u0301",
    "\uff11\uff12",
    "/a/b.pdf",
    "off",
    "0",
    0,
    1.0,
    1e-09,
    None,
    [],
    {},
    "+5",
    "007.50",
    "-0.0",
    "1.10000000000000",
    "0.0000000001",
    999_999_999_999,
    -0.0000000001,
    "2024-02-29",
    "2024-02-29T23:59:59.999999",
    "2024-02-29T23:59:59.5",
    "\U0001f600 \u0130\u00df \\u0000 \"':null,[]{}",
    {"a": {"b": [], "c": None}, "d": [None, 1.50, True, {}]},
]


def test_accounts_of_every_shape_are_as_they_were_staged(batches: BatchClient) -> None:
    code = batches.supplier.code
    least = {"import_supplier": code, "unknown_occupier": "true"}
    shapes: list[dict[str, Any]] = [least, least | {"ledgers": [], "statements": []}]
    # A payload for each unusual value, which has it for each name for which it is valid.
    for value in _UNUSUAL:
        (payload,) = planted_differences.make_book(code, 1)
        for container, key in {key: (it, key) for it, key in places(payload)}.values():
            if key == "import_supplier":
                continue
            kept = container[key]
            container[key] = value
            if validate_text(encode_json(payload), Profile.LENIENT).errors:
                container[key] = kept
        shapes.append(payload)
    shapes += batches.supplier.accounts(60)
    payloads = [
        shape | {"external_account_number": f"{place} \u00e9\u4e2d/{place}"}
        for place, shape in enumerate(shapes)
    ]
    singly = payloads[:20]
    assert batches.run(payloads[20:])["counts"]["FAILED"] == 0
    for payload in singly:
        assert batches.supplier.stage(payload).status_code == 201
        number = payload["external_account_number"]
        assert batches.supplier.process(number).status_code == 202
        attempt_id = batches.supplier.current_attempt(number)
        assert perform_attempt(batches.resources.Session, attempt_id)
        batches.resources.slots.release([str(attempt_id)])
    report = batches.supplier.reconcile()
    assert report["differences"] == []
    assert (report["clean"], report["compared"]) == (True, len(payloads))

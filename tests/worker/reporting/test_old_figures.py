"""The figures of the old system: what a file may be, and how they compare with the created accounts."""

import gzip
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.models import Comparison
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.reconciliation import comparisons, old_figures
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient

pytestmark = pytest.mark.usefixtures("neighbour")

_AT = "/reconciliation/{}/old-figures/"


def _send(supplier: SupplierClient, lines: list[dict[str, Any]] | bytes, **query: Any) -> Any:
    content = lines if isinstance(lines, bytes) else b"\n".join(map(encode_json, lines))
    return supplier.put(_AT.format(supplier.code), data=content, query_string=query)


def _compare(supplier: SupplierClient) -> dict[str, Any]:
    with supplier.Session.begin() as session:
        comparison, _ = comparisons.start_comparison(session, supplier.known())
        comparison_id = comparison.id
    assert comparisons.wait_for_comparison(supplier.Session, comparison_id)
    found = supplier.get(_AT.format(supplier.code))
    assert found.status_code == 200, found.text
    answer: dict[str, Any] = parse_json(found.data)
    return answer


def _differences(supplier: SupplierClient, **query: Any) -> list[dict[str, Any]]:
    found = supplier.get(_AT.format(supplier.code) + "differences/", query_string=query)
    assert found.status_code == 200, found.text
    return [
        {
            name: it[name]
            for name in ("external_account_number", "figure", "old", "created", "bucket", "is_tolerated")
        }
        for it in parse_json(found.data)
    ]


def _figures(account: dict[str, Any]) -> dict[str, Any]:
    """Return what the old system would say of an account, read from its payload."""
    points = [it for address in account["supply_addresses"] for it in address["meter_points"]]
    today = date.today()
    advances, readings = [], []
    for point in points:
        starts = [(date.fromisoformat(it["effective_from"]), it) for it in point["agreements"]]
        begun = [it for it in starts if it[0] <= today]
        chosen = max(begun, key=lambda it: it[0]) if begun else min(starts, key=lambda it: it[0])
        template = chosen[1].get("monthly_advance_charge_template")
        advances += [Decimal(template["total_monthly_advance_amount"])] if template else []
    both = ("transactions_in_open_settlement_period", "historical_statement_transactions")
    for ledger in account["ledgers"]:
        for entry in (it for name in both for it in ledger.get(name) or []):
            readings += [it["end_date"] for it in entry.get("line_items") or [] if it.get("units")]
    figures = {
        "external_account_number": account["external_account_number"],
        "ledger_balances": {it["ledger_code"]: str(it["ledger_balance"]) for it in account["ledgers"]},
        "last_billed_to_date": max(
            filter(None, (it.get("last_billed_to_date") for it in points)), default=None
        ),
        "monthly_advance_amount": sum(advances),
        "meter_points": len(points),
        "open_transactions": sum(len(it.get(both[0]) or []) for it in account["ledgers"]),
        "last_reading_date": max(filter(None, readings), default=None),
    }
    return {name: value for name, value in figures.items() if value is not None}


def _agree_later(point: dict[str, Any], days: int) -> None:
    """Let another agreement follow the last one of a meter point, with another advance, after today."""
    last = max(point["agreements"], key=lambda it: str(it["effective_from"]))
    start = date.today() + timedelta(days=days)
    template = (last.get("monthly_advance_charge_template") or {}) | {"total_monthly_advance_amount": "7.00"}
    values = {"effective_from": start.isoformat(), "monthly_advance_charge_template": template}
    point["agreements"].append(last | values)


def test_figures_of_the_payloads_are_those_of_the_accounts(batches: BatchClient) -> None:
    supplier = batches.supplier
    accounts = supplier.accounts(40)
    for account, days in zip(accounts, (1, 30, 4_000) * 3, strict=False):
        _agree_later(account["supply_addresses"][0]["meter_points"][0], days)
    batch_id = batches.run(accounts)["batch_id"]
    lines = [_figures(it) for it in accounts]
    assert _send(supplier, lines).status_code == 200
    found = _compare(supplier)
    assert (found["accounts"], found["compared"], found["not_created"], found["differing"]) == (40, 40, 0, 0)
    names = {it["figure"]: it for it in found["figures"]}
    assert set(names) == {name for it in lines for name in it} - {"external_account_number"}
    assert not any(it["within_cent"] + it["within_euro"] + it["more"] for it in names.values())
    assert names["meter_points"]["equal"] == 40
    reconciled = supplier.reconcile()
    assert reconciled["old_figures"] == found["figures"]
    assert reconciled["clean"]
    of_batch = supplier.reconcile(f"?batch={batch_id}")
    assert of_batch["old_figures"] == found["figures"]


def test_differences_are_in_buckets_and_count_beyond_the_tolerance(batches: BatchClient) -> None:
    supplier = batches.supplier
    accounts = supplier.accounts(6)
    batches.run(accounts[:5])
    with supplier.Session.begin() as session:
        skip_accounts(session, supplier.known().id, ["left out"])
    changed = [
        ("0", Decimal(0), "EQUAL"),
        ("1", Decimal("0.01"), "WITHIN_CENT"),
        ("2", Decimal("-0.02"), "WITHIN_EURO"),
        ("3", Decimal(1), "WITHIN_EURO"),
        ("4", Decimal("1.01"), "MORE"),
    ]
    lines, expected = [], []
    for account, (_, apart, bucket) in zip(accounts, changed, strict=False):
        number = account["external_account_number"]
        code, balance = (
            account["ledgers"][0]["ledger_code"],
            Decimal(str(account["ledgers"][0]["ledger_balance"])),
        )
        others = {it["ledger_code"]: it["ledger_balance"] for it in account["ledgers"][1:]}
        lines.append(
            {"external_account_number": number, "ledger_balances": {code: balance + apart, **others}}
        )
        if apart:
            expected.append((number, "ledger_balances", bucket, abs(apart) <= Decimal("0.02")))
    billed = date.fromisoformat(_figures(accounts[0])["last_billed_to_date"])
    lines[0] |= {"last_billed_to_date": billed - timedelta(days=2), "meter_points": 99}
    lines[1] |= {"last_billed_to_date": date(1999, 1, 1)}
    lines += [
        {"external_account_number": number, "meter_points": 1}
        for number in (accounts[5]["external_account_number"], "left out")
    ]
    assert _send(supplier, lines, tolerance="0.02", tolerance_days=2).status_code == 200
    first = accounts[0]["external_account_number"]
    expected += [(first, "last_billed_to_date", "MORE", True), (first, "meter_points", "MORE", False)]
    expected += [(accounts[1]["external_account_number"], "last_billed_to_date", "MORE", False)]
    expected += [(accounts[5]["external_account_number"], "account", "MORE", False)]
    found = _compare(supplier)
    listed = [
        (it["external_account_number"], it["figure"], it["bucket"], it["is_tolerated"])
        for it in _differences(supplier)
    ]
    assert sorted(listed) == sorted(expected)
    assert (found["compared"], found["not_created"]) == (5, 1)
    assert found["differing"] == len({it[0] for it in expected if not it[3]})
    assert {"problem": "OLD_FIGURES", "number": found["differing"]} in supplier.reconcile()["problems"]
    assert [it["bucket"] for it in _differences(supplier, bucket="WITHIN_CENT")] == ["WITHIN_CENT"]
    assert {it["figure"] for it in _differences(supplier, figure="meter_points")} == {"meter_points"}
    pages = supplier.pages(_AT.format(supplier.code) + "differences/?limit=2")
    assert [len(it) for it in pages] == [2, 2, 2, 2]


def test_figures_are_compared_with_what_was_added_since(batches: BatchClient) -> None:
    supplier = batches.supplier
    (account,) = supplier.accounts(1)
    batches.run([account])
    line = _figures(account)
    code = account["ledgers"][0]["ledger_code"]
    payment = {"transaction_id": "t", "transaction_date": "2026-10-01", "amount": "0.30", "type": "PAYMENT"}
    batches.run([batches.line(line["external_account_number"], transactions=[payment])], kind="transactions")
    assert _send(supplier, [line]).status_code == 200
    assert _compare(supplier)["differing"] == 1
    assert [it["figure"] for it in _differences(supplier)] == ["ledger_balances", "open_transactions"]
    line["ledger_balances"][code] = str(Decimal(line["ledger_balances"][code]) + Decimal("0.30"))
    assert _send(supplier, [line | {"open_transactions": line["open_transactions"] + 1}]).status_code == 200
    assert _compare(supplier)["differing"] == 0


def test_csv_says_what_ndjson_says_and_the_newest_file_holds(
    batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    supplier = batches.supplier
    accounts = supplier.accounts(5)
    batches.run(accounts)
    lines = [_figures(it) for it in accounts]
    assert _send(supplier, [it | {"meter_points": 77} for it in lines]).status_code == 200
    assert _compare(supplier)["differing"] == 5
    codes = sorted({code for it in lines for code in it["ledger_balances"]})
    names = sorted({name for it in lines for name in it} - {"ledger_balances"})
    rows = [",".join([*names, *(f"ledger_balances.{code}" for code in codes)])]
    rows += [
        ",".join(str(it.get(name, "")) for name in names)
        + ","
        + ",".join(it["ledger_balances"].get(code, "") for code in codes)
        for it in lines
    ]
    monkeypatch.setattr(old_figures, "PAGE", 2)
    with supplier.Session.begin() as session:
        comparison_id = comparisons.start_comparison(session, supplier.known())[0].id
    with supplier.Session.begin() as session:
        while (
            session.get_one(Comparison, comparison_id, populate_existing=True).stage
            != comparisons.Stage.OLD_FIGURES
        ):
            comparisons.do_piece(session, comparison_id)
        comparisons.do_piece(session, comparison_id)
        assert (
            session.get_one(Comparison, comparison_id, populate_existing=True).totals["figures"]["differing"]
            == 2
        )
    sent = _send(supplier, gzip.compress("\r\n".join(rows).encode()), file_name="figures.csv.gz")
    assert sent.status_code == 200, sent.text
    found = _compare(supplier)  # which goes on with the one that had begun
    assert (found["file_name"], found["accounts"], found["compared"], found["differing"]) == (
        "figures.csv.gz",
        5,
        5,
        0,
    )
    assert _differences(supplier) == []


@pytest.mark.parametrize(
    ("content", "errors"),
    [
        (b'{"external_account_number": "1", "meter_points": 1}\n{', [("parse_error", "2")]),
        (b'{"external_account_number": "1"}', [("required", "1")]),
        (
            b'{"external_account_number": " 1", "ledger_balances": {"E ": "1"}}',
            [("outer_spaces", "1.external_account_number"), ("outer_spaces", "1.ledger_balances.E ")],
        ),
        (
            b'\n\n{"meter_points": -1}',
            [("required", "3.external_account_number"), ("out_of_range", "3.meter_points")],
        ),
        (
            b'{"external_account_number": "1", "ledger_balances": {"E": "x"}}',
            [("invalid", "1.ledger_balances.E")],
        ),
        (
            b'{"external_account_number": "1", "meter_point": 1, "meter_points": 1}',
            [("unknown_field", "1.meter_point")],
        ),
        (
            b'{"external_account_number": "1", "last_billed_to_date": "1-2-2026"}',
            [("invalid_date", "1.last_billed_to_date")],
        ),
        (
            b'{"external_account_number": "1", "meter_points": 1}\n' * 2,
            [("duplicate_line_in_batch", "2.external_account_number")],
        ),
        (b"[1]\n", [("required", "1.external_account_number"), ("unknown_field", "1.[1]")]),
        (b'external_account_number,meter_points\n1,2,3\n"1,2', [("parse_error", "2"), ("parse_error", "3")]),
        (b"external_account_number,points\n1,2", [("unknown_field", "1.points")]),
        (
            b"external_account_number,ledger_balances,ledger_balances.E\n1,2,3",
            [("unknown_field", "1.ledger_balances")],
        ),
        (b"external_account_number,meter_points\n\xff,1", [("parse_error", "2")]),
        (
            b"external_account_number,meter_points\n1,1\n1,1",
            [("duplicate_line_in_batch", "3.external_account_number")],
        ),
    ],
)
def test_a_bad_line_is_refused_with_its_place_and_nothing_is_stored(
    supplier: SupplierClient, content: bytes, errors: list[tuple[str, str]]
) -> None:
    answer = _send(supplier, content)
    assert answer.status_code == 400, answer.text
    assert [(it["code"], it["attr"]) for it in answer.json["errors"]] == errors
    assert (
        parse_json(supplier.get(_AT.format(supplier.code)).data)["errors"][0]["code"]
        == "old_figures_not_found"
    )


@pytest.mark.parametrize(
    ("content", "code"), [(b"", "batch_file_unreadable"), (b"\x1f\x8bx", "batch_file_unreadable")]
)
def test_a_file_that_cannot_be_read_is_refused(supplier: SupplierClient, content: bytes, code: str) -> None:
    answer = _send(supplier, content)
    assert (answer.status_code, answer.json["errors"][0]["code"]) == (400, code)


def test_an_erasure_removes_figures_and_what_arrives_later(batches: BatchClient) -> None:
    supplier = batches.supplier
    (account,) = supplier.accounts(1)
    batches.run([account])
    line = {"external_account_number": account["external_account_number"], "meter_points": 99}
    assert _send(supplier, [line]).status_code == 200
    assert _compare(supplier)["differing"] == 1
    with supplier.Session.begin() as session:
        erase_account(session, supplier.known(), account["external_account_number"], reason="Request 1")
    assert _differences(supplier) == []
    assert _compare(supplier)["compared"] == 0
    assert _send(supplier, [line]).status_code == 200
    assert _compare(supplier)["compared"] == 0

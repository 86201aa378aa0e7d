"""Which payloads say the same, and where others differ."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migration_payloads.normal_form import ACCOUNT, digest_line, read_json
from migration_payloads.schemas.account import read_account
from migration_payloads.schemas.json import encode_json
from migration_service_local.samples import generate_accounts


def _compare(one: Any, other: Any) -> list[tuple[str, Any, Any]]:
    return [(it.path, it.staged, it.created) for it in ACCOUNT.find_differences(one, other)]


def _account() -> dict[str, Any]:
    """Return an account with two items at least in each list that has an identity."""
    account: dict[str, Any] = read_json(encode_json(next(iter(generate_accounts(1, supplier="X", seed=1)))))
    point = account["supply_addresses"][0]["meter_points"][0]
    for lists, names in (
        (account["customers"][0], ("user_details",)),
        (account["supply_addresses"][0], ("meter_points",)),
        (
            account["ledgers"][0],
            ("transactions_in_open_settlement_period", "historical_statement_transactions"),
        ),
        (account, ("statements",)),
        (point["meters"][0], ("registers",)),
        (point, ("meters", "agreements", "billing_configuration_periods", "estimated_annual_volumes")),
    ):
        for name in names:
            items = lists.setdefault(name, [])
            items[:] = [items[0] if items else {"namespace": "a", "transaction_id": "T", "amount": 1}]
            items[0].pop("payment_type", None)
            second = json.loads(json.dumps(items[0], default=str))
            for member in _IDENTITY & second.keys():
                second[member] = (
                    "2024-01-01" if "date" in member or "from" in member else "871694330222747339"
                )
            items.append(second)
    account["ledgers"][0]["identifiers"] = ["871694330222747339", "871694330222747340"]
    return account


_IDENTITY = {
    *("namespace", "ean", "transaction_id", "statement_id", "meter_id", "register_id"),
    *("effective_from", "start_date", "start_at"),
}


def _change(value: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    if isinstance(value, dict):
        return {it: change(it, _change(below, change, it)) for it, below in value.items()}
    return [change("", _change(it, change)) for it in value] if isinstance(value, list) else value


_POSITIONAL = {"customers", "supply_addresses", "ledgers", "line_items", "tax_items", "cost_details", "units"}


def _reverse(name: str, value: Any) -> Any:
    return value[::-1] if isinstance(value, list) and name not in _POSITIONAL else value


def _rewrite_number(_name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return value
    return Decimal(f"{value:f}{'0' if '.' in f'{value:f}' else '.00'}")


def _rewrite_text(name: str, value: Any) -> Any:
    if name.endswith("_id") or name in ("number", "tariff_code", "ledger_code", "ref", "namespace"):
        return f" \u200b{value}\u00a0"
    return value


def _add_nothing(_name: str, value: Any) -> Any:
    return (
        {"payment_type": "", "tax_items": [], **value}
        if isinstance(value, dict) and "amount" in value
        else value
    )


@pytest.mark.parametrize("change", [_reverse, _rewrite_number, _rewrite_text, _add_nothing])
def test_an_account_is_the_same_however_it_is_written(change: Callable[[str, Any], Any]) -> None:
    account = _account()
    written = dict(reversed(_change(account, change).items()))
    assert encode_json(written) != encode_json(dict(reversed(account.items())))
    assert _compare(account, written) == _compare(written, account) == []
    assert ACCOUNT.digest(account) == ACCOUNT.digest(written)


@given(data=st.data())
def test_any_other_value_is_a_difference_at_its_path(data: st.DataObject) -> None:
    account = _account()
    place: Any = account
    steps: list[Any] = []
    while isinstance(place, dict | list):
        keys = [*place] if isinstance(place, dict) else [*range(len(place))]
        keys = [it for it in keys if place[it] not in ([], {}, None, "")]
        steps.append(data.draw(st.sampled_from(keys)))
        parent, place = place, place[steps[-1]]
    before = encode_json(account)
    parent[steps[-1]] = (not place) if isinstance(place, bool) else "another"
    paths = [it.path for it in ACCOUNT.find_differences(read_json(before), account)]
    whole = ".".join(map(str, steps))
    assert paths
    assert all(whole.startswith(path) for path in paths)
    assert ACCOUNT.digest(read_json(before)) != ACCOUNT.digest(account)
    assert [it.path for it in ACCOUNT.find_differences(account, account)] == []


def test_what_is_loaded_has_the_hash_of_what_was_sent() -> None:
    for account in generate_accounts(20, supplier="X", seed=2):
        text = encode_json(account)
        loaded = read_account(text)
        assert ACCOUNT.digest(loaded.data) == ACCOUNT.digest(read_json(loaded.json or b""))
        assert ACCOUNT.digest(loaded.data) == digest_line(b" " + text)


def test_a_line_with_errors_is_compared_as_it_was_sent() -> None:
    (account,) = generate_accounts(1, supplier="X", seed=2)
    lines = [encode_json({**account, "customers": it}) for it in ("nobody", "somebody", [1], [1.0])]
    lines += [b"{", b"[", b"\xff", b'{"a":1,"a":1}']
    digests = [*map(digest_line, lines)]
    assert digests[2] == digests[3]
    assert len({*digests}) == len(lines) - 1

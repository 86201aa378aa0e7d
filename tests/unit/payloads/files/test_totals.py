"""Control totals: what a file adds up to, and what suppliers give."""

from decimal import Decimal

import msgspec

from migration_payloads.files.totals import add_up, list_measures
from migration_service_local.samples import generate_accounts


def test_a_book_adds_up_to_what_its_accounts_have() -> None:
    accounts = list(generate_accounts(40, supplier="S"))
    expected: dict[str, Decimal] = {"accounts": Decimal(40), "statements": Decimal(0)}
    for account in accounts:
        expected["statements"] += len(account.get("statements", ()))
        for ledger in account.get("ledgers", ()):
            name = f"balance of {ledger['ledger_code']}"
            expected[name] = expected.get(name, Decimal(0)) + Decimal(str(ledger["ledger_balance"]))
            for period in ("transactions_in_open_settlement_period", "historical_statement_transactions"):
                for it in ledger.get(period, ()):
                    for name, value in (
                        (f"number of {it['type']}", 1),
                        (f"amount of {it['type']}", it["amount"]),
                    ):
                        expected[name] = expected.get(name, Decimal(0)) + Decimal(str(value))
    found = add_up(msgspec.json.encode(account) for account in accounts).to_dict()
    assert list_measures(found) == expected
    assert (found["unreadable_lines"], found["unreadable_amounts"]) == (0, 0)

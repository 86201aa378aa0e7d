"""`migration-client profile` finds what changed between two books, and nothing if nothing did."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from migration_payloads.files.ndjson import Line
from migration_service_client.command import main
from migration_service_client.command.book_profile import profile_book
from migration_service_client.command.drift import find_drift
from migration_service_local.samples import generate_accounts
from support.batch_client import ndjson

Account = dict[str, Any]
_TODAY = date(2026, 3, 1)
_RANDOM = Random(5)
_METER_POINT = "supply_addresses.*.meter_points.*"
_TRANSACTION = "ledgers.*.historical_statement_transactions.*"


#: Kinds of drift that tell one share of both books, and not that of the value whose share changed most.
_SHARES = ("missing", "sign", "invalid", "upper_case")


def book(seed: int, count: int = 600) -> Iterator[Account]:
    return generate_accounts(count, supplier="S", seed=seed, today=_TODAY)


def profile(accounts: Any) -> dict[str, Any]:
    made = (Line(number, msgspec.json.encode(it)) for number, it in enumerate(accounts, 1))
    return json.loads(json.dumps(profile_book(made)))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def earlier() -> dict[str, Any]:
    return profile(book(1))


def below(value: Any, path: str) -> Iterator[tuple[Account, str]]:
    """Yield the objects with the member at a path, and its name."""
    name, _, rest = path.partition(".")
    if name == "*":
        for item in value:
            yield from below(item, rest)
    elif not rest:
        yield value, name
    elif name in value:
        yield from below(value[name], rest)


def change_values(account: Account, path: str, change: Callable[[Any], Any]) -> None:
    for holder, name in below(account, path):
        if holder.get(name) not in (None, ""):
            holder[name] = change(holder[name])


def without(path: str, share: float = 1.0) -> Callable[[Account, Random], None]:
    def remove(account: Account, rng: Random) -> None:
        for holder, name in below(account, path):
            if rng.random() < share:
                holder.pop(name, None)

    return remove


def shift(days: int) -> Callable[[str], str]:
    return lambda it: (date.fromisoformat(it[:10]) + timedelta(days=days)).isoformat() + it[10:]


def swap_day_and_month(text: str) -> str:
    year, month, day = text.split("-")
    return f"{year}-{day}-{month}"


def two_hours_earlier(text: str) -> str:
    return shift(-1)(text[:10]) + "T22:00:00"


def new_member(account: Account, rng: Random) -> None:
    for customer in account.get("customers", ()):
        customer["gender"] = rng.choice("FMX")


def new_code(account: Account, rng: Random) -> None:
    for ledger in account["ledgers"]:
        for it in ledger["historical_statement_transactions"]:
            if it["type"] == "PAYMENT" and rng.random() < 0.2:
                it["payment_type"] = "IDEAL"


def some_equal(account: Account, rng: Random) -> None:
    if rng.random() < 0.3:
        account["external_account_number"] = f"10000{rng.randrange(40):04}"


#: A path, the kind of drift that is found there, and what is done to each account.
IN_ACCOUNTS: list[tuple[str, str, Callable[[Account, Random], None]]] = [
    ("billing_postcode", "vanished", without("billing_postcode")),
    ("customers.*.gender", "new", new_member),
    ("customers.*.user_details", "missing", without("customers.*.user_details", 0.65)),
    (f"{_TRANSACTION}.payment_type", "new_code", new_code),
    ("external_account_number", "duplicates", some_equal),
]
#: The same with what is done to each value at the path.
IN_VALUES: list[tuple[str, str, Callable[[Any], Any]]] = [
    (f"{_METER_POINT}.meters.*.registers.*.number_of_digits", "type", str),
    (f"{_METER_POINT}.meters.*.active_from", "century", shift(-36_525)),
    (f"{_TRANSACTION}.transaction_date", "day_and_month", swap_day_and_month),
    (f"{_TRANSACTION}.tax_items.*.amount", "factor", lambda it: it * 100),
    ("statements.*.gross_amount", "sign", lambda it: -it),
    (f"{_METER_POINT}.meters.*.type", "gone_code", lambda _: "SMART"),
    (f"{_TRANSACTION}.amount", "rounding", round),
    ("customers.*.user_details.*.value", "form", lambda it: f"00{it}"),
    ("statements.*.statement_path", "length", lambda it: it.replace("statements", "st")),
    ("customers.*.given_name", "encoding", lambda it: f"{it}ë".encode().decode("cp1252", "replace")),
    ("supply_addresses.*.supply_address1", "encoding", lambda it: f"{it[:2]}?{it[3:]}"),
    (f"{_METER_POINT}.ean", "rounded", lambda it: f"{it[:15]}000"),
    ("supply_addresses.*.supply_address4", "constant", lambda _: "Onbekend"),
    ("customers.*.date_of_birth", "constant", lambda _: "1970-01-01"),
    ("ledgers.*.identifiers", "items", lambda it: it * 2),
    ("customers.*.family_name", "upper_case", str.upper),
    (f"{_METER_POINT}.estimated_annual_volumes.*.start_at", "hours", two_hours_earlier),
    (f"{_METER_POINT}.estimated_annual_volumes.*.energy_netted_peak", "distribution", lambda it: it * 2),
    (f"{_METER_POINT}.smart_meter_administrative_status", "shares", lambda it: _RANDOM.choice([it, "OFF"])),
    (f"{_METER_POINT}.supply_start_date", "invalid", lambda it: f"{it}T00:00"),
]


def test_another_book_of_the_same_source_has_no_drift(earlier: dict[str, Any]) -> None:
    assert list(find_drift(earlier, profile(book(2)))) == []


def test_each_planted_drift_is_found_at_its_path_and_none_elsewhere(earlier: dict[str, Any]) -> None:
    rng, changed = Random(3), []
    for account in map(deepcopy, book(2)):
        for path, _, change in IN_VALUES:
            change_values(account, path, change)
        for _, _, change_account in IN_ACCOUNTS:
            change_account(account, rng)
        changed.append(account)
    found: dict[str, set[str]] = {}
    later = profile(changed)
    for it in find_drift(earlier, later):
        found.setdefault(it.path, set()).add(it.kind)
    there, back = shares_told(earlier, later), shares_told(later, earlier)
    both = there.keys() & back.keys()
    assert {it: there[it] for it in both} == {it: back[it][::-1] for it in both}
    assert {kind for _, kind in both} >= {"missing", "sign"}
    planted = [(path, kind) for path, kind, _ in (*IN_ACCOUNTS, *IN_VALUES)]
    assert [(path, kind) for path, kind in planted if kind not in found.get(path, ())] == []
    # Items that are there twice are duplicates, too.
    assert found.keys() == {path for path, _ in planted} | {"ledgers.*.identifiers.*"}


def _of(number: int, **known: Any) -> dict[str, Any]:
    """Return what a profile may say of a path with this number of values."""
    names = ("values", "parents", "weight", "weight_of_parents", "sampled")
    return dict.fromkeys(names, number) | known


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (_of(900, lettered=900, upper_case=450), _of(900, lettered=900, upper_case=180), ["upper_case"]),
        (_of(900, lettered=900, upper_case=450), _of(900, lettered=900, upper_case=181), []),
        (_of(15), {}, ["vanished"]),
        (_of(14), {}, []),
        ({}, _of(15), ["new"]),
        ({}, _of(14), []),
        (_of(100, codes={"A": 85, "B": 15}), _of(100, codes={"A": 100}), ["gone_code"]),
        (_of(100, codes={"A": 86, "B": 14}), _of(100, codes={"A": 100}), []),
        (_of(900, distinct=1, repeated=0.04), _of(900, repeated=0.5), ["duplicates"]),
        (_of(900, distinct=1, repeated=0.05), _of(900, repeated=0.5), []),
        (
            _of(900, is_date=1, quantiles=[0] * 101),
            _of(900, is_date=1, quantiles=[18_250] * 101),
            ["century"],
        ),
        (
            _of(900, is_date=1, quantiles=[0] * 101),
            _of(900, is_date=1, quantiles=[18_249] * 101),
            ["distribution"],
        ),
    ],
)
def test_a_drift_is_told_from_its_bound_on(
    old: dict[str, Any], new: dict[str, Any], kinds: list[str]
) -> None:
    """Nothing is told of what is in an object that one of the books does not have."""
    for parent in (_of(9), _of(9, null=9), _of(9, null=8)):
        books = (
            {"paths": {"a": it, "a.b": known} if known else {"a": it}}
            for known, it in ((old, parent), (new, _of(9)))
        )
        found = [it.kind for it in find_drift(*books) if it.path == "a.b"]
        assert found == (kinds if parent != _of(9, null=9) else [])


def shares_told(old: dict[str, Any], new: dict[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Return what share is told to have been so, and what share is so now, by path and kind."""
    found = find_drift(old, new)
    return {(it.path, it.kind): re.findall(r"[\d.]+ %", it.says) for it in found if it.kind in _SHARES}


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, ["profile", *arguments], **options)


def test_nothing_of_a_person_is_shown_or_saved(tmp_path: Path) -> None:
    accounts = list(book(1, 30))
    accounts[0]["comments"] = "Jansen"
    accounts[1]["supply_addresses"][0]["meter_points"][0]["market_segment"] = "Jansen"
    accounts[2]["statements"][0]["statement_pdf_context"] = {"name": "Jansen"}
    (tmp_path / "book").write_bytes(ndjson(accounts, compress=True))
    saved = tmp_path / "saved"
    result = run(str(tmp_path / "book"), "--save", str(saved))
    assert result.exit_code == 0
    for text in (result.output, saved.read_text()):
        assert "Jansen" not in text
        for account in accounts:
            for customer in account.get("customers", ()):
                assert customer["email"] not in text
                assert customer["date_of_birth"] not in text
            assert account["external_account_number"] not in text
            assert f'"{account["billing_address1"]}"' not in text
    assert "customers.*.email\t" in result.output


def test_a_book_is_compared_with_an_earlier_one_or_with_its_saved_profile(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("monday", "tuesday", "saved")}
    accounts = [{name: it[name] for name in ("import_supplier", "billing_postcode")} for it in book(1, 60)]
    files["monday"].write_bytes(ndjson(accounts))
    files["tuesday"].write_bytes(ndjson(it | {"billing_postcode": "1011 AB"} for it in accounts))
    result = run(str(files["monday"]), "--save", str(files["saved"]), "--json")
    assert (result.exit_code, json.loads(result.output)) == (0, json.loads(files["saved"].read_text()))
    for earlier in ("monday", "saved"):
        result = run(str(files["tuesday"]), "--against", str(files[earlier]), "--json")
        assert result.exit_code == 1
        [drift] = map(json.loads, result.output.splitlines())
        assert (drift["path"], drift["kind"]) == ("billing_postcode", "constant")
    result = run("-", "--against", str(files["saved"]), input=files["monday"].read_bytes())
    assert (result.exit_code, result.output) == (0, "No drift.\n")


def test_what_is_far_from_the_others_is_shown_with_its_line(tmp_path: Path) -> None:
    accounts = [
        {"ledgers": it["ledgers"], "import_supplier": "ABCDEFGH"[at % 8]} for at, it in enumerate(book(1, 40))
    ]
    accounts[7]["ledgers"][0]["ledger_balance"] = "1000000.50"
    for at in range(1, 4):  # nearer to the others
        accounts[at]["ledgers"][0]["ledger_balance"] = f"{at}00000"
    accounts[9]["ledgers"][0]["ledger_balance"] = "-2000000"
    (tmp_path / "book").write_bytes(ndjson([*accounts, b"{"]))
    output = run(str(tmp_path / "book")).output
    (found,) = re.findall(r"Far from the others at ledgers\.\*\.ledger_balance: (.*)", output)
    assert found.startswith("-2e+06 on line 10, ")
    assert found.endswith("1e+06 on line 8.")
    assert "A 12.5 %, B 12.5 %" in output, output
    assert output.endswith("41 lines, 1 of them unreadable.\n")


def test_names_that_differ_in_case_only_are_told_apart(tmp_path: Path) -> None:
    lines = [
        b'{"External_account_number": "1", "customers": [{"Email": "x", "gender": "F"}]}',
        b'{"external_account_number": "2", "customers": [{"email": "y", "EMAIL": 1}], "ledgers": 5}',
    ]
    (tmp_path / "book").write_bytes(b"\n".join(lines))
    found = json.loads(run(str(tmp_path / "book"), "--json").output)["paths"]
    names = ["External_account_number", "external_account_number"]
    names += [f"customers.*.{it}" for it in ("EMAIL", "Email", "email", "gender")]
    assert {it: found[it]["values"] for it in names} == dict.fromkeys(names, 1)
    assert "shapes" in found["external_account_number"]


def test_what_the_service_cannot_read_is_counted_and_what_is_out_of_place_profiled(tmp_path: Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"customers": [], "external_account_number": ["1"]}',
        b'{"customers": [{"family_name": "Jansen", "family_name": "Jansen"}]}',
        b'{"a": ' + 5_000 * b"[" + 5_000 * b"]" + b"}",
        b'{"external_account_number": {"a": 1}, "customers": 5, "ledgers": "none"}',
    ]
    (tmp_path / "book").write_bytes(b"\n".join(lines))
    result = run(str(tmp_path / "book"))
    assert (result.exit_code, "Jansen" in result.output) == (0, False)
    assert result.output.endswith("4 lines, 2 of them unreadable.\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"migration_profile": 2, "paths"', "is a profile that cannot be read"),
        ('{"migration_profile": 1}', "is a profile of another version of this command. Save it again."),
        ("number;name\n1;Anna\n", "cannot be read: This looks like a CSV file."),
    ],
)
def test_an_earlier_book_that_cannot_be_read_exits_with_2(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "earlier").write_text(content)
    result = run("-", "--against", str(tmp_path / "earlier"), input=b"{}")
    assert result.exit_code == 2
    assert says in result.stderr

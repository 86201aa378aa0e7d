"""What was refused is acknowledged, and what was sent is compared with what was created."""

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import suppliers
from migration_service.models import Account, Customer, Ledger
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.reconciliation.differences import NOT_COMPARED
from migration_service.tasks.names import COMPARE
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, ShownForm, text_of
from support.messages import noted_messages
from support.supplier_client import SupplierClient

_PHONE = "invalid_phone_number"
_REASON = "Moved out before the migration."


@pytest.fixture
def refused(batches: BatchClient) -> str:
    """The id of a stage batch: two bad telephone numbers, a bad date, a line without a number, a good one."""
    accounts = batches.supplier.accounts(4)
    for account in accounts[:2]:
        account["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    accounts[2]["customers"] = [{"family_name": "Jansen", "date_of_birth": "not a date"}]
    return str(batches.run([*accounts, b"{no json"], "stage")["batch_id"])


def _numbers(batches: BatchClient) -> list[str]:
    return [account["external_account_number"] for account in batches.supplier.accounts(4)]


def _paths(batches: BatchClient) -> tuple[str, str]:
    """The list, and the form."""
    at = f"/suppliers/{batches.supplier.code}/acknowledgements/"
    return at, f"{at}new/"


def _open(batches: BatchClient) -> int:
    answer = batches.supplier.get(f"/reconciliation/{batches.supplier.code}/").json
    return int(answer["sent"]["open"])  # type: ignore[index]


def test_every_account_with_an_error_is_acknowledged_from_its_page(
    administrator: ConsoleClient, batches: BatchClient, refused: str
) -> None:
    (listed, new), numbers = _paths(batches), _numbers(batches)
    page = administrator.see(f"/batches/{refused}/codes/{_PHONE}/").replace("&amp;", "&")
    form = f"{new}?batch={refused}&error={_PHONE}"
    assert f'href="/console{form}"' in page
    assert administrator.form(form) == ShownForm(
        "Acknowledge what is not migrated",
        "2 refused accounts or lines will not be migrated, and are no longer open.",
        "Acknowledge 2",
        f"/batches/{refused}/codes/{_PHONE}/",
        facts={"Error": _PHONE, "Accounts": f"{numbers[0]}, {numbers[1]}"},
    )
    assert _open(batches) == 5
    done = administrator.act(form, {"reason": _REASON})
    assert done == (listed, "2 accounts or lines are acknowledged.")
    assert _open(batches) == 3
    page = text_of(administrator.see(listed))
    assert "There are 2 acknowledgements." in page
    assert page.count(_REASON) == 2
    assert page.count("operator ") == 3  # one of them is the name at the top of the page
    assert administrator.form(form).button is None


def test_what_failed_in_a_batch_is_acknowledged_at_once_with_its_lines_without_a_number(
    administrator: ConsoleClient, batches: BatchClient, refused: str
) -> None:
    _listed, new = _paths(batches)
    assert f"{new}?batch={refused}" in administrator.see(f"/batches/{refused}/")
    shown = administrator.form(f"{new}?batch={refused}")
    assert shown.facts["Lines without an account number, or of added data"] == "1"
    for path, wanted in (
        (f"/batches/{refused}/lines/1/", f"account={_numbers(batches)[0]}"),
        (f"/batches/{refused}/lines/5/", f"line={refused}.5"),
    ):
        assert f"{new}?{wanted}" in administrator.see(path)
    administrator.act(f"{new}?batch={refused}", {"reason": _REASON})
    assert _open(batches) == 1  # the one that is staged


def test_chosen_accounts_and_lines_are_acknowledged_from_the_list(
    administrator: ConsoleClient, batches: BatchClient, refused: str
) -> None:
    (_listed, new), numbers = _paths(batches), _numbers(batches)
    page = administrator.see(f"/suppliers/{batches.supplier.code}/open/")
    assert f'name="account" value="{numbers[2]}"' in page
    assert f'name="line" value="{refused}.5"' in page
    assert f'value="{numbers[3]}"' not in page  # it is staged
    form = f"{new}?account={numbers[2]}&account={numbers[0]}&line={refused}.5"
    assert administrator.form(form).button == "Acknowledge 3"
    many = [f"{new}?account=" + "&account=".join("123456"[:number]) for number in (5, 6)]
    named = [administrator.form(it).facts["Accounts"] for it in many]
    assert named == ["1, 2, 3, 4, 5", "1, 2, 3, 4, 5…"]
    administrator.act(form, {"reason": _REASON})
    assert _open(batches) == 2


def test_what_was_not_refused_is_not_acknowledged_and_a_reason_is_needed(
    administrator: ConsoleClient, batches: BatchClient, refused: str
) -> None:
    (_listed, new), numbers = _paths(batches), _numbers(batches)
    staged = administrator.send(f"{new}?account={numbers[3]}", {"reason": _REASON})
    assert staged.status_code == 400
    assert "was not refused and is not waiting" in staged.text
    assert administrator.send(f"{new}?batch={refused}", {"reason": ""}).status_code == 400
    assert _open(batches) == 5


@pytest.mark.usefixtures("broken_batch")
def test_old_and_new_numbers_are_downloaded(administrator: ConsoleClient, batches: BatchClient) -> None:
    code = batches.supplier.code
    path = f"/suppliers/{code}/id-map.csv"
    assert f"/console{path}" in administrator.see(f"/suppliers/{code}/reconciliation/")
    answer = administrator.get(path)
    assert answer.headers["Content-Disposition"] == f"attachment; filename=id-map-{code}.csv"
    assert answer.data == batches.supplier.get(f"/reconciliation/{code}/id-map/").data
    assert answer.data.count(b"\r\n") == 5  # with a header


_NOT_COMPARED_YET = "Nothing is open. 3 created accounts have not been compared yet."


def test_the_keys_are_those_of_its_organisation_that_are_not_revoked(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    own = find_prefix(batches.supplier.api_key)
    other = SupplierClient.create(batches.supplier.app, batches.supplier.Session)
    page = f"/suppliers/{batches.supplier.code}/"
    shown = administrator.see(page)
    assert f">{own}<" in shown
    assert str(find_prefix(other.api_key)) not in shown
    administrator.send(f"/setup/keys/{own}/revoke/")
    assert f">{own}<" not in administrator.see(page)


def test_a_large_book_is_compared_when_somebody_asks_for_it(
    administrator: ConsoleClient,
    batches: BatchClient,
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = batches.supplier.accounts(3)
    batches.run([first, second])
    last = batches.run([third])["batch_id"]
    with sessions.begin() as session:
        session.execute(update(Ledger).values(ledger_balance=-1))
    page = f"/suppliers/{batches.supplier.code}/reconciliation/"
    all_differ = "Nothing is open. 3 created accounts differ."
    monkeypatch.setattr(suppliers, "LARGE", 2)
    assert administrator.lead(page) == _NOT_COMPARED_YET
    with noted_messages() as messages:
        begun = text_of(administrator.see(f"{page}?compare=1"))
    assert [name for name, _arguments in messages] == [COMPARE]
    assert "0 of 3 accounts and lines have been compared." in begun
    assert _NOT_COMPARED_YET in begun
    monkeypatch.undo()
    of_batch = "Nothing is open. 1 created account differs. 1 total of the file is not accounted for."
    assert administrator.lead(f"{page}?batch={last}") == of_batch
    assert administrator.lead(page) == all_differ
    monkeypatch.setattr(suppliers, "LARGE", 2)
    assert administrator.lead(page) == all_differ, "the kept one"
    assert "Compare what has changed" in administrator.see(page)


def test_an_account_that_differs_is_listed_with_its_paths_and_masked_values(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    page = f"/suppliers/{batches.supplier.code}/reconciliation/"
    assert administrator.lead(page) == "Nothing is open. Nothing was compared."
    assert "refused accounts of single requests" in administrator.see(page)
    (account,) = batches.supplier.accounts(1)
    account["customers"] = [{"family_name": "Jansen"}]
    account["ledgers"] = [{"ledger_code": "E", "ledger_balance": 10}]
    batches.run([account])
    assert (
        administrator.lead(page)
        == "Nothing is open. Every value of 1 created account matches what was staged."
    )
    assert all(it in text_of(administrator.see(page)) for it in NOT_COMPARED)
    with sessions.begin() as session:
        session.execute(update(Ledger).values(ledger_balance=12.5, ledger_code="F"))
        session.execute(update(Customer).values(family_name="De Boer", given_name="A", email="a@b.example"))
        session.execute(update(Account).values(billing_postcode="X", unknown_occupier=True))
    shown = administrator.see(page)
    assert "De Boer" not in shown
    number = account["external_account_number"]
    shown = text_of(shown)
    assert f"{number} ledgers.0.ledger_balance 10 12.5" in shown
    assert f'{number} customers.0.family_name "•••" "•••"' in shown
    assert f"{number} and 2 more values" in shown

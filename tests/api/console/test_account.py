"""The page of an account: one timeline of everything, and what is other than it was sent."""

import re
from posixpath import normpath

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Account, Customer
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of
from support.undo_client import UndoClient


def _told(page: str) -> list[str]:
    """The moments of the timeline as text, the newest first."""
    story = page[page.index('<ol class="timeline">') :]
    items = story[: story.index("</ol>")].split("<li>")[1:]
    return [" ".join(re.sub(r"<[^>]+>", " ", item).split()) for item in items]


def _places(told: list[str], *wanted: str) -> list[int]:
    """Where the timeline has the first moment with each of these texts."""
    found = [[place for place, text in enumerate(told) if it in text] for it in wanted]
    assert all(found), (wanted, told)
    return [places[0] for places in found]


@pytest.mark.parametrize("number", ["a/b", "77/", "/", ".", "..", "a/skip", "100%", "%2F"])
def test_links_lead_to_an_account_of_any_number(
    administrator: ConsoleClient, batches: BatchClient, number: str
) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.supplier.stage(account | {"external_account_number": number})
    found = administrator.get("/accounts/", query_string={"q": number})
    link = found.location if found.location else _link_within(found.text, batches.supplier.code)
    # A browser leaves out the segments "." and "..", also if they are encoded once.
    read = link.replace("%2E", ".")
    assert normpath(read) == read.rstrip("/")
    page = administrator.see(link.removeprefix("/console"))
    assert f"{link}skip/" in page
    shown = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert shown is not None
    assert number in text_of(shown[1])


def _link_within(page: str, code: str) -> str:
    found = re.search(rf'href="([^"]*/suppliers/{code}/accounts/[^"]*)"', page)
    assert found is not None
    return found[1]


def test_everything_is_told_in_one_order_of_time(administrator: ConsoleClient, batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    number, code = account["external_account_number"], batches.supplier.code
    path = f"/suppliers/{code}/accounts/{number}/"
    batches.run([account], "stage", name="first")
    assert f"{path}skip/" in administrator.see(path)
    assert administrator.send(f"{path}skip/").status_code == 400, "it needs a reason"
    assert administrator.send(f"{path}skip/", {"reason": "Moves later"}).status_code == 303
    administrator.send(f"{path}unskip/")
    batches.run([account], "import", name="second")
    batches.run([batches.line(number, notes=[{"body": "One."}, {"body": "Two."}])], kind="notes")
    page = administrator.see(path)
    assert "Put back" not in page
    told = _told(page)
    order = _places(told, "2 notes were added", "Created", "second, line 1", "account.unskipped", "Staged")
    assert order == sorted(order)
    assert "Attempt SUCCEEDED" in " ".join(told)
    assert "One." not in " ".join(told)

    undo = administrator.send(f"{path}undo/", {"reason": "Again.", "overrides": ["data_added_later"]})
    UndoClient(batches.supplier).work(undo.location.split("/")[-2])
    told = _told(administrator.see(path))
    assert _places(told, "Undo REVERTED") == [0]
    assert "2 notes were added" not in " ".join(told)


def test_an_account_that_was_never_staged_has_its_lines(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    account["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    batches.run([account], "stage", name="faulty")
    number = account["external_account_number"]
    page = administrator.see(f"/suppliers/{batches.supplier.code}/accounts/{number}/")
    (line,) = _told(page)
    assert "faulty, line 1 accounts, stage FAILED" in line
    assert "invalid_phone_number" in line
    assert "Staged and created" not in page


_DIFFERENCE = re.compile(r'<tr><th[^>]* path">(.*?)</th><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>')


def test_of_the_differences_only_what_may_be_about_a_person_is_masked(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    account, other = batches.supplier.accounts(2)
    account["customers"] = other["customers"] = [{"family_name": "Jansen", "mobile": "0612345678"}]
    batches.run([account, other])
    with sessions.begin() as session:
        session.execute(update(Account).values(unknown_occupier=True))
        session.execute(update(Customer).values(mobile=None))
    page, neighbour = (
        f"/suppliers/{batches.supplier.code}/accounts/{it['external_account_number']}/"
        for it in (account, other)
    )

    def differences(path: str) -> set[tuple[str, ...]]:
        found = _DIFFERENCE.findall(administrator.see(path))
        return {tuple(map(text_of, row)) for row in found}

    known = ("unknown_occupier", "false", "true")
    lost = "customers.0.mobile"
    masked = {(lost, '"•••"', "none"), known}
    assert differences(page) == masked
    answer = administrator.send(f"{page}reveal/", page=page)
    assert (answer.status_code, answer.location) == (303, f"/console{page}")
    assert differences(page) == {(lost, '"0612345678"', "none"), known}
    assert differences(neighbour) == masked


def test_each_tab_has_its_part_of_the_account_before_and_after_it_is_created(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    number, code = account["external_account_number"], batches.supplier.code
    path = f"/suppliers/{code}/accounts/{number}/"
    point, ledger = account["supply_addresses"][0]["meter_points"][0], account["ledgers"][0]
    booked = [*ledger["transactions_in_open_settlement_period"], *ledger["historical_statement_transactions"]]
    for mode in ("stage", "import"):
        batches.run([account], mode)
        assert point["ean"] in administrator.see(f"{path}?tab=meter-points")
        page = administrator.see(f"{path}?tab=ledgers")
        assert all(it["transaction_id"] in page for it in booked)
        assert ledger["ledger_code"] in page
        statements = administrator.see(f"{path}?tab=statements")
        assert all(it["number"] in statements for it in account["statements"])
        assert 'class="payload"' in administrator.see(f"{path}?tab=data")
        assert '<ol class="timeline">' in administrator.see(f"{path}?tab=nothing")
        assert account["customers"][0]["family_name"] not in administrator.see(path)
    batches.run([batches.line(number, notes=[{"body": "Call before noon."}])], kind="notes")
    assert "Call before noon." not in administrator.see(f"{path}?tab=notes")  # a person may have written it
    administrator.send(f"{path}reveal/", page=path)
    assert "Call before noon." in administrator.see(f"{path}?tab=notes")
    head = text_of(administrator.see(path))
    assert account["customers"][0]["family_name"] in head
    assert f"number of the supplier {number} new number " in head
    assert f"owner {batches.supplier.organisation} team {batches.supplier.team}" in head

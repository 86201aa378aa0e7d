"""Undoing imports, comparing batches and setting error thresholds in the console."""

import re

from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.access.operators import OperatorRole
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.states import EmailMoment
from migration_service.tasks.names import REVERT_ACCOUNTS
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, LogIn, text_of
from support.messages import noted_messages
from support.rows import set_live
from support.undo_client import UndoClient


def test_the_import_of_an_account_is_undone(administrator: ConsoleClient, batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account])
    page = f"/suppliers/{batches.supplier.code}/accounts/{account['external_account_number']}/"
    path = f"{page}undo/"
    assert f"/console{path}" in administrator.see(page)
    assert "1 account is removed with all its data" in administrator.see(path)
    with noted_messages() as messages:
        assert administrator.send(path).status_code == 400
    assert messages == []
    with noted_messages() as messages:
        answer = administrator.send(path, {"reason": "The mapping was wrong."})
    assert answer.status_code == 303, answer.text
    undo = answer.location.removeprefix("/console")
    assert messages == [(REVERT_ACCOUNTS, (undo.split("/")[-2],))]
    assert "The mapping was wrong." in administrator.see(undo)
    UndoClient(batches.supplier).work(undo.split("/")[-2])
    text = administrator.see(undo)
    assert "REVERTED <b>1</b>" in text
    assert '"REVERTED"' in administrator.get(f"{undo}outcomes.csv").get_data(as_text=True)
    assert "is not created yet" in administrator.see(page)
    assert "The mapping was wrong." in administrator.see(f"/undos/?supplier={batches.supplier.code}")


def test_what_is_blocked_is_said_before_an_undo(administrator: ConsoleClient, batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account])
    number = account["external_account_number"]
    batches.run([batches.line(number, notes=[{"body": "One."}])], kind="notes")
    form = administrator.form(f"/suppliers/{batches.supplier.code}/accounts/{number}/undo/")
    assert form.sentence.startswith("0 accounts are removed")
    assert form.facts == {"Accounts that are blocked, and kept": "1", f"data_added_later: {number}": "1"}


def test_the_imports_of_a_batch_are_undone_and_an_undo_is_cancelled(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    report = batches.run(batches.supplier.accounts(3))
    path = f"/batches/{report['batch_id']}/undo/"
    preview = administrator.see(path)
    assert "3 accounts are removed with all their data" in preview
    undo = administrator.send(path, {"reason": "Again."}).location.removeprefix("/console")
    assert "3 remaining accounts are kept" in administrator.see(f"{undo}cancel/")
    administrator.send(f"{undo}cancel/")
    assert "CANCELLED" in administrator.see(undo)


def test_a_batch_that_was_undone_says_so_and_offers_no_undo(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    accounts = batches.supplier.accounts(3)
    batch = batches.run(accounts)["batch_id"]
    page, undos = f"/batches/{batch}/", UndoClient(batches.supplier)
    assert batches.get(batch)["undone"] == 0
    assert administrator.lead(page).endswith(" 3 of 3 done, 0 failed")
    undos.run(accounts[0]["external_account_number"])
    assert "2 accounts of 3 lines exist, 1 are undone" in administrator.lead(page)
    assert f"{page}undo/" in administrator.see(page)
    undos.run(batch=batch)
    assert "0 accounts of 3 lines exist, 3 are undone" in administrator.lead(page)
    assert f"{page}undo/" not in administrator.see(page)
    assert administrator.lead(f"{page}undo/").startswith("Nothing can be undone: ")
    for listed in ("/batches/", f"/suppliers/{batches.supplier.code}/"):
        assert " 0% (3 undone)" in text_of(administrator.see(listed))
    assert batches.get(batch)["undone"] == 3


def test_after_the_go_live_no_undo_is_offered_or_promised(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    batch = batches.run([account])["batch_id"]
    with batches.supplier.Session.begin() as session:
        set_live(session, batches.supplier.code)
    for page in (
        f"/batches/{batch}/",
        f"/suppliers/{batches.supplier.code}/accounts/{account['external_account_number']}/",
    ):
        assert f"{page}undo/" not in administrator.see(page)
        told = f"{batches.supplier.code} has gone live. None of its accounts can be undone."
        assert administrator.lead(f"{page}undo/") == told


def test_an_undo_says_how_many_emails_it_withdraws(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    withdrawn = "Unsent e-mails, which are withdrawn"
    accounts = batches.supplier.accounts(3)
    silent = batches.run(accounts[:1])["batch_id"]
    with sessions.begin() as session:
        set_customer_emails(session, batches.supplier.code, on=True, at=EmailMoment.AT_CREATION)
    for account in accounts[1:]:
        account["customers"] = [{"family_name": "Jansen", "email": "jansen@example.com"}]
    told = batches.run(accounts[1:])["batch_id"]
    assert administrator.form(f"/batches/{told}/undo/").facts[withdrawn] == "2"
    assert withdrawn not in administrator.form(f"/batches/{silent}/undo/").facts


def test_only_administrators_may_override_what_blocks_an_undo(log_in: LogIn, batches: BatchClient) -> None:
    report = batches.run(batches.supplier.accounts(1))
    path = f"/batches/{report['batch_id']}/undo/"
    assert "data_added_later" in log_in(OperatorRole.ADMINISTER).see(path)
    operator = log_in(OperatorRole.OPERATE)
    assert "data_added_later" not in operator.see(path)
    answer = operator.send(path, {"reason": "x", "overrides": ["data_added_later"]})
    assert "overrides" not in answer.text


def test_two_batches_are_compared(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    accounts = batches.supplier.accounts(3)
    good = batches.run(accounts, "validate", name="second")["batch_id"]
    accounts[0]["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    bad = batches.run(accounts, "validate", name="first")["batch_id"]
    path = f"/batches/{good}/compare/"
    assert "newly broken" not in administrator.see(path)  # there is none before it
    mended = administrator.see(f"{path}?before={bad}")
    assert f'<option value="{bad}" selected>' in mended
    assert f'value="{good}"' not in mended
    assert "1 account is newly broken" in administrator.see(f"/batches/{bad}/compare/?before=%0a")
    assert "0 accounts are newly broken, 1 is mended, 0 are still broken." in mended
    assert "invalid_phone_number" in mended
    named = [
        f'<a href="/console/batches/{one}/">{name}</a>' for one, name in ((bad, "first"), (good, "second"))
    ]
    assert re.search(r" \([^)]*\) → ".join(map(re.escape, named)), mended)

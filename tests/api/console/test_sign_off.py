"""The sign-off of a supplier, what is in the way of a wave, and what a person accepts."""

import re

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.display import DASH
from migration_service.models import ImportSupplier
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of
from support.wave_client import WaveClient

pytestmark = pytest.mark.usefixtures("neighbour")


def _row(page: str, measure: str) -> list[str]:
    """Return the cells of a measure, from what was given to what is unaccounted for."""
    found = re.search(rf'<tr><th scope="row"[^>]*>{measure}</th>(.*?)</tr>', page, re.DOTALL)
    return [text_of(it) for it in re.findall(r"<td.*?>(.*?)</td>", found[1] if found else "", re.DOTALL)]


def test_the_totals_of_all_files_are_added_up_and_what_is_open_is_told(
    batches: BatchClient, administrator: ConsoleClient
) -> None:
    supplier, path = batches.supplier, f"/suppliers/{batches.supplier.code}/sign-off/"
    assert administrator.lead(path) == "Nothing was compared."
    first, second, third, refused = supplier.accounts(4)
    file = batches.run([first, refused | {"customers": [{}]}])["batch_id"]
    batches.run([second, third])
    batches.run([second], "dry-run")
    supplier.put(f"/batches/{file}/control-totals/", {"accounts": 3})
    supplier.reconcile()
    page = administrator.see(path)
    assert _row(page, "accounts") == ["3", "4", "-1", "1", "0", "0", "3", "0"]
    assert "1 item is open. 1 file does not match its control totals." in administrator.lead(path)
    assert re.search(r"btn-primary[^>]*>Reconcile", page)
    number = refused["external_account_number"]
    body = {"external_account_numbers": [number], "reason": "Stays out."}
    assert supplier.post(f"/reconciliation/{supplier.code}/acknowledgements/", body).status_code == 201
    supplier.put(f"/batches/{file}/control-totals/", {"accounts": 2})
    supplier.reconcile()
    page = administrator.see(path)
    assert _row(page, "accounts") == ["2", "4", "0", "1", "1", "0", "3", "0"]
    assert administrator.lead(path) == "Nothing is open, and nothing differs."
    assert re.search(r"btn-primary[^>]*>Go-live", page)


def test_an_account_in_two_files_is_not_counted_as_missing(
    batches: BatchClient, administrator: ConsoleClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account | {"customers": [{}]}])
    batches.run([account])
    batches.supplier.reconcile()
    page = administrator.see(f"/suppliers/{batches.supplier.code}/sign-off/")
    assert _row(page, "accounts")[-1] == DASH
    assert "Accounts are in several files" in page


def test_the_console_shows_what_is_in_the_way_and_a_person_accepts_it(
    administrator: ConsoleClient, waves: WaveClient, sessions: sessionmaker[Session]
) -> None:
    waves.stage(1)
    plan = waves.plan({"rest": True})["plan_id"]
    code = waves.supplier.code
    with sessions.begin() as session:
        of_supplier = update(ImportSupplier).where(ImportSupplier.code == code)
        session.execute(of_supplier.values(sends_customer_emails=True, emails_at="at_creation"))
    page = administrator.see(f"/suppliers/{code}/ready/")
    assert "Customers get an e-mail as soon as their account is created" in page
    assert "Not yet." in page
    assert "warning: Customers get an e-mail" in administrator.see(f"/waves/{plan}/1/start/")
    path = f"/suppliers/{code}/ready/mail_held/accept/?ready_for=next_wave"
    fields = administrator.tokens(path)
    assert administrator.post(path, fields | {"reason": ""}).status_code == 400
    made = administrator.post(path, fields | {"reason": "A pilot of staff"})
    assert made.status_code == 303, made.text
    page = administrator.see(f"/suppliers/{code}/ready/?ready_for=next_wave")
    assert "A pilot of staff" in page
    assert "Customers get an e-mail" not in administrator.see(f"/waves/{plan}/1/start/")

"""What is in the way of a wave, in the console, and the acceptance of warnings."""

from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Account, ImportSupplier
from support.batch_client import BatchClient
from support.console_client import ConsoleClient
from support.wave_client import WaveClient


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


def test_a_person_accepts_what_is_open_in_the_receipt(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    accounts, code = batches.supplier.accounts(2), batches.supplier.code
    batches.run(accounts)
    path = f"/suppliers/{code}/receipt/accept/"
    assert "There is nothing to accept. Compare first." in administrator.see(path)
    with sessions.begin() as session:
        wrong = update(Account).where(Account.import_supplier_id == batches.supplier.known().id)
        session.execute(wrong.values(billing_postcode="9999 ZZ"))
    batches.supplier.reconcile()
    assert "Accept what is open" in administrator.see(f"/suppliers/{code}/reconciliation/")
    assert "2 created accounts differ." in administrator.see(path)
    given = administrator.tokens(path) | {"problem": "DIFFERING"}
    assert administrator.post(path, given | {"reason": ""}).status_code == 400
    unknown = administrator.post(path, given | {"reason": "Known", "external_account_number": "nobody"})
    assert (unknown.status_code, "or not this account" in unknown.text) == (400, True)
    assert administrator.post(path, given | {"reason": "They have moved"}).status_code == 303
    page = administrator.see(path)
    assert "They have moved" in page
    assert "There is nothing to accept" in page

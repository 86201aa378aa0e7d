"""Undoing imports, comparing batches and setting error thresholds in the console."""

from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.states import EmailMoment
from support.batch_client import BatchClient
from support.console_client import ConsoleClient


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

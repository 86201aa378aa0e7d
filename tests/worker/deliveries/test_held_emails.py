"""E-mails to customers and a go-live at once (the rest: transcripts/rest/emails.md)."""

from migration_service.db.sql import OpenTransaction
from migration_service.services.emails.customer_emails import count_held
from migration_service.services.processing.attempts import run_attempt
from migration_service.services.setup.suppliers import set_customer_emails
from support.factories import json_of
from support.interleavings import COMMIT, Script, explore
from support.rows import set_live
from support.supplier_client import SupplierClient
from support.undo_client import GoLiveClient
from support.wave_client import WaveClient

_JANSEN = {"family_name": "Jansen", "email": "jansen@example.com"}


def test_an_account_that_is_created_while_its_supplier_goes_live_is_told(waves: WaveClient) -> None:
    """In every order: its e-mail is released by the go-live, or recorded as one that waits for nothing."""

    def script() -> Script:
        supplier = SupplierClient.create(waves.supplier.app, waves.supplier.Session)
        with supplier.Session.begin() as session:
            set_customer_emails(session, supplier.code, on=True)
        (payload,) = supplier.accounts()
        supplier.stage(payload | {"customers": [_JANSEN]})
        supplier.process(number := str(payload["external_account_number"]))
        attempt_id = supplier.current_attempt(number)
        yield {
            "create": [("run", lambda it: run_attempt(OpenTransaction.of(it), attempt_id)), COMMIT],
            "live": [("set", lambda it: set_live(it, supplier.code)), COMMIT],
        }
        go_lives = GoLiveClient(supplier)
        planned = json_of(supplier.get("/go-lives/"))[0]
        go_lives.work(planned["go_live_id"])
        with supplier.Session() as session:
            assert count_held(session, supplier.known().id) == 0
        assert go_lives.get(planned["go_live_id"])["state"] == "COMPLETED"

    assert explore(waves.supplier.Session, script) >= 3

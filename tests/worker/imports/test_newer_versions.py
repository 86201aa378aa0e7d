"""A newer version of an account that was sent and not taken: what is removed of it, and two at once."""

from datetime import timedelta
from itertools import count
from typing import Any

from sqlalchemy import func, update
from sqlalchemy.orm import Session

from migration_service.db.sql import OpenTransaction
from migration_service.errors import ErrorItem
from migration_service.models import AccountImportProcess
from migration_service.services.imports import states
from migration_service.services.imports.newer_versions import RefusedVersion, note_refused
from migration_service.services.reporting.retention import remove_error_texts, remove_payloads
from support.batch_client import BatchClient
from support.factories import json_of
from support.interleavings import COMMIT, Script, explore
from support.supplier_client import SupplierClient


def _codes(items: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(item["code"], item["attr"]) for item in items]


def test_what_was_removed_after_its_time_cannot_be_compared_and_is_said_so(batches: BatchClient) -> None:
    supplier = batches.supplier
    (account,) = supplier.accounts()
    changed = account | {"billing_address1": "Elsewhere 1"}
    batches.run([account])
    supplier.stage(changed)
    with supplier.Session.begin() as session:
        assert remove_error_texts(session, after_days=8) == 0
        long_ago = func.now() - timedelta(days=9)
        session.execute(update(AccountImportProcess).values(account_created_at=long_ago, refused_at=long_ago))
        assert remove_error_texts(session, after_days=8) == 1
        assert remove_payloads(session, after_days=8)
    (item,) = supplier.reconcile()["open"]
    assert (item["reason"], item["errors"]) == ("CREATED_OLDER_VERSION", None)
    same, other = (json_of(supplier.stage(it))["errors"] for it in (account, changed))
    assert _codes(same) == [("account_already_imported", None)]
    assert _codes(other) == [("account_already_imported", None), ("payload_differs", None)]
    assert "no longer kept" in other[1]["detail"]


def test_a_correction_refused_while_the_account_is_created_marks_it_in_every_order(
    supplier: SupplierClient,
) -> None:
    (account,) = supplier.accounts()
    known = supplier.known()
    rounds = count()

    def script() -> Script:
        number = f"created-{next(rounds)}"
        supplier.stage(account | {"external_account_number": number})
        attempt = supplier.attempt_of(number)
        refused = RefusedVersion(number, [ErrorItem("invalid_phone_number", "Wrong.", "customers.0.mobile")])

        def begin(session: Session) -> bool:
            return states.start(OpenTransaction.of(session), attempt, durable=True)

        def note(session: Session) -> None:
            note_refused(OpenTransaction.of(session), known.id, [refused])

        run = yield {"request": [("begin", begin), COMMIT], "other": [("note", note), COMMIT]}
        assert run.results["request.begin"] is True
        assert supplier.process_row(number).refused_at is not None

    assert explore(supplier.Session, script) > 2

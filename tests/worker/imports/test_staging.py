"""What staging stores, and how it is found again."""

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.validation import validate_account
from migration_service.db.sql import OpenTransaction
from migration_service.models import AccountImportProcess
from migration_service.services.imports import storing
from migration_service.services.imports.skipping import skip_accounts
from migration_service.states import ImportState, StagingResult
from support.supplier_client import SupplierClient

#: What differs between two rows whatever they hold. The hashes are those of a payload with its supplier.
_OF_THE_ROW = ("id", "import_supplier_id", "payload_sha256", "content_hash", "staged_at")


def test_an_account_is_staged_alone_as_among_others(supplier: SupplierClient) -> None:
    """One account is sent without arrays, by another statement."""
    account, companion, skipped = supplier.accounts(3)
    other = SupplierClient.create(supplier.app, supplier.Session)
    changed = account | {"billing_address1": 'It\'s \\ "1" å'}
    number = account["external_account_number"]

    def stage(session: Session, client: SupplierClient, *payloads: dict[str, Any]) -> tuple[object, ...]:
        """Stage the first of these payloads, and return what became of it and of its row."""
        accounts = [
            validate_account(payload | {"import_supplier": client.code}, Profile.LENIENT)
            for payload in payloads
        ]
        (staged, *_) = storing.stage(OpenTransaction.of(session), client.known(), accounts)
        hashed = func.jsonb_hash_extended(AccountImportProcess.payload, 0).label("hashed")
        row = session.execute(
            select(AccountImportProcess.__table__, hashed).where(client.process_of(number))
        ).mappings()
        found = dict(row.one())
        assert found.pop("hashed") == found["content_hash"]
        values = {name: value for name, value in found.items() if name not in _OF_THE_ROW}
        values["payload"] = values["payload"] | {"import_supplier": ""}
        return staged.result is StagingResult.STAGED, staged.state, staged.id == 0, values

    with supplier.Session.begin() as session:
        for client in (supplier, other):
            skip_accounts(session, client.known().id, [skipped["external_account_number"]])
        seen = []
        for payload in (account, account, changed, skipped):
            alone = stage(session, supplier, payload)
            assert alone == stage(session, other, payload, companion)
            seen.append(alone[:3])
    assert seen == [
        (True, ImportState.PENDING, False),
        (False, ImportState.PENDING, False),
        (False, ImportState.PENDING, False),
        (False, ImportState.SKIPPED, True),
    ]

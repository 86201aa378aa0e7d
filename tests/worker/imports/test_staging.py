"""What staging stores, and how it is found again."""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.validation import validate_account
from migration_service.db.sql import OpenTransaction
from migration_service.models import AccountImportProcess
from migration_service.services.imports import storing
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.imports.status import find_process
from migration_service.states import ImportState
from support.supplier_client import SupplierClient

#: What differs between two rows whatever they hold. The hash is that of a payload with its supplier.
_OF_THE_ROW = ("id", "import_supplier_id", "payload_sha256", "staged_at")


def test_an_account_is_found_by_its_supplier_and_number(supplier: SupplierClient) -> None:
    other = SupplierClient.create(supplier.app, supplier.Session)
    (account,) = supplier.accounts()
    for client in (supplier, other):
        assert client.stage(account | {"import_supplier": client.code}).status_code == 201
    with supplier.Session() as session:
        suppliers = [it.known().id for it in (supplier, other)]
        found = [find_process(session, it, account["external_account_number"]) for it in suppliers]
        assert [it.import_supplier_id for it in found if it] == suppliers
        assert find_process(session, suppliers[0], "nobody") is None


def test_a_replaced_payload_is_traced_to_the_request_that_replaced_it(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]

    def stage(
        payload: dict[str, Any], request_id: str, address: str
    ) -> tuple[datetime, int | None, str | None, str | None]:
        """Stage a payload, and return when, by whom, by which request and from where it was staged."""
        supplier.post(
            "/account-import-process/create-or-update/",
            payload,
            headers={"X-Request-ID": request_id},
            environ_overrides={"REMOTE_ADDR": address},
        )
        row = supplier.process_row(number)
        return row.staged_at, row.staged_by_api_key_id, row.staged_request_id, row.staged_address

    before, key, *first = stage(account, "first", "10.0.0.1")
    supplier.renew_key()
    after, other_key, *second = stage(account | {"billing_address1": "Elsewhere 1"}, "second", "10.0.0.2")
    assert (first, second) == (["first", "10.0.0.1"], ["second", "10.0.0.2"])
    assert after > before
    assert None not in (key, other_key)
    assert key != other_key


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
        row = session.execute(
            select(AccountImportProcess.__table__).where(client.process_of(number))
        ).mappings()
        values = {name: value for name, value in row.one().items() if name not in _OF_THE_ROW}
        values["payload"] = values["payload"] | {"import_supplier": ""}
        return staged.first, staged.state, staged.id == 0, values

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

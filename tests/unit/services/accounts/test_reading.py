"""An account is read back in the order in which it was sent."""

from sqlalchemy import update
from sqlalchemy.orm import Session

from migration_service.models import Ledger
from migration_service.services.accounts.reading import find_account, read_account
from migration_service.services.setup.suppliers import KnownSupplier
from support.imported_account import ImportedAccount


def test_an_account_is_found_by_its_pair_and_has_its_ledgers_in_their_order(
    session: Session, another: ImportedAccount, known: KnownSupplier
) -> None:
    assert find_account(session, known.id + 1, another.number) is None
    assert find_account(session, known.id, "another number") is None
    found = find_account(session, known.id, another.number)
    assert found is not None
    last = update(Ledger).where(Ledger.ledger_code == "GAS")
    session.execute(last.values(position=-1))  # before the other one, whose row and code come before it
    data = read_account(session, found)
    assert [it["ledger_code"] for it in data["ledgers"]] == ["GAS", "ELECTRICITY"]
    assert not {"added_notes", "added_payment_instructions"} & data.keys()

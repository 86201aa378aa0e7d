"""Accounts are found by either number, or by a meter point, among the suppliers that may be seen."""

import pytest
from sqlalchemy.orm import Session

from migration_service.models import MeterPoint, SupplyAddress
from migration_service.services.reporting.search import FoundAccount, find_accounts
from migration_service.services.setup.suppliers import KnownSupplier
from unit.services.reporting.rows import add, make_account, make_process, make_supplier


@pytest.fixture
def found(session: Session, known: KnownSupplier, other: KnownSupplier) -> list[FoundAccount]:
    """Insert accounts of three suppliers, and return those of the first two that have "wanted" anywhere."""
    foreign = make_supplier(session, "FOREIGN")
    made = []
    for supplier, number, service, ean in (
        (other, "wanted", "A-3", "other"),
        (known, "wanted", "A-1", "wanted"),
        (known, "by meter point", "A-2", "wanted"),
        (known, "by service number", "wanted", "other"),
        (known, "another", "A-4", "other"),
        (foreign, "wanted", "A-5", "wanted"),
    ):
        process = make_process(session, supplier, number, service_account_number=service)
        account = make_account(session, process)
        for position in range(2):
            address = add(session, SupplyAddress(account_pk=account.id, position=position))
            point = MeterPoint(supply_address_pk=address.id, position=0, ean=ean, supply_type="GAS")
            add(session, point)
        if supplier is not foreign and number != "another":
            made.append(FoundAccount(supplier.code, number, service, "IMPORTED"))
    make_process(session, known, "staged", state="PENDING")
    return sorted(made, key=lambda it: (it.import_supplier, it.external_account_number))


def test_accounts_are_found_by_each_of_their_numbers(
    session: Session, known: KnownSupplier, other: KnownSupplier, found: list[FoundAccount]
) -> None:
    suppliers = [known.id, other.id]
    assert find_accounts(session, "wanted", import_supplier_ids=suppliers) == found
    assert len(found) == 4
    assert find_accounts(session, "wanted", import_supplier_ids=suppliers, limit=2) == found[:2]
    assert find_accounts(session, "wanted", import_supplier_ids=[other.id]) == found[3:]
    assert find_accounts(session, "wanted", import_supplier_ids=[]) == []
    staged = [FoundAccount("MINE", "staged", None, "PENDING")]
    assert find_accounts(session, "staged", import_supplier_ids=suppliers) == staged
    assert find_accounts(session, "\x00\u200b", import_supplier_ids=suppliers) == []

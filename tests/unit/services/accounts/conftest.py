"""An account to which tests add data, and what others can do with it meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Account
from migration_service.services.accounts.added_data import OpenAccount, find_accounts
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier
from migration_service.tasks.resources import WorkerResources
from support.imported_account import LEDGER, ImportedAccount

_LOCKS: dict[str, Any] = {
    "UPDATE": {},
    "NO KEY UPDATE": {"key_share": True},
    "SHARE": {"read": True},
    "KEY SHARE": {"read": True, "key_share": True},
}


@pytest.fixture
def known(session: Session, account: ImportedAccount) -> KnownSupplier:
    return get_import_supplier(session, account.supplier.code, organisation_id=None)


@pytest.fixture
def opened(session: Session, account: ImportedAccount, known: KnownSupplier) -> OpenAccount:
    """The account, not locked."""
    return find_accounts(session, known, [account.number])[account.number]


@pytest.fixture
def another(account: ImportedAccount, worker_resources: WorkerResources) -> ImportedAccount:
    """A later account of the same supplier, with two ledgers and a meter point of each."""
    eans = {"GAS": "871687120000000024", "ELECTRICITY": "871687120000000017"}
    return ImportedAccount.create(
        account.supplier,
        worker_resources,
        supply_addresses=[{"meter_points": [{"ean": ean, "supply_type": it} for it, ean in eans.items()]}],
        ledgers=[LEDGER | {"ledger_code": it, "identifiers": [eans[it]]} for it in ("ELECTRICITY", "GAS")],
    )


@pytest.fixture
def free_locks(sessions: sessionmaker[Session]) -> Callable[[OpenAccount], list[str]]:
    """Return a function that returns which locks of an account another session could get at this moment."""

    def free(account: OpenAccount) -> list[str]:
        row = select(Account.id).where(Account.id == account.id)
        with sessions() as other:
            return [
                name
                for name, options in _LOCKS.items()
                if other.scalar(row.with_for_update(skip_locked=True, **options))
            ]

    return free

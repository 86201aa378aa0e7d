"""What changed between two batches is read page by page."""

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.reporting import comparison
from migration_service.services.reporting.comparison import find_changed_accounts
from migration_service.services.setup.suppliers import KnownSupplier
from support.rows import make_batch, make_line


@pytest.mark.usefixtures("unsorted")
@pytest.mark.parametrize("page", [1, 2, 20_000])
def test_changed_accounts_come_in_the_order_of_their_lines(
    session: Session,
    within: sessionmaker[Session],
    known: KnownSupplier,
    page: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "PAGE", page)
    before, after = (make_batch(session, known) for _ in range(2))
    # The last line first, so that only who orders them gets them in their order.
    for line in (3, 2, 1):
        make_line(session, before, line, f"removed {line}", "FAILED", "invalid")
        make_line(session, after, line, f"added {line}", "FAILED", "invalid")
    found = [it.external_account_number for it in find_changed_accounts(within, before.id, after.id)]
    assert found == ["added 1", "added 2", "added 3", "removed 1", "removed 2", "removed 3"]

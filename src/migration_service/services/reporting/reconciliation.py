"""Reconciliation: what was staged against what was created, account by account, exact to the cent.

The staged payloads are counted and summed as JSON, the created accounts as rows, and the two never meet
before: so it also finds what creation itself got wrong. Page by page, so memory and each statement stay
small however large the book is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Row
from sqlalchemy.orm import Session, sessionmaker

from migration_service.schemas.moments import write_moment
from migration_service.services.batches.results import write_csv
from migration_service.services.reporting.reconciliation_sql import (
    COMPARE,
    ID_MAP,
    LIST_PAGE,
    LIST_PAGE_OF_BATCH,
)
from migration_service.states import ImportState

_PAGE = 2_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure in which an account is not as it was staged."""

    measure: str
    staged: Decimal
    created: Decimal


@dataclass(frozen=True, slots=True)
class AccountDifference:
    """An account that is not as it was staged."""

    external_account_number: str
    service_account_number: str | None
    #: Where its import is: PENDING, with nothing created, or IMPORTED with something different.
    state: str
    differences: list[Difference]


@dataclass(slots=True)
class Totals:
    """The sums over all accounts; complete once `find_differences` is through."""

    #: For each measure the staged and the created sum: counts, and amounts in euros.
    measures: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    #: Accounts that operators took out; they count nowhere.
    skipped: int = 0
    #: Created accounts whose staged payload was removed after its retention time: there is nothing left to
    #: compare them with. They are among the accounts, and in no other measure.
    not_comparable: int = 0
    #: Accounts that are not as they were staged, the pending ones included.
    differing: int = 0

    def add(self, measure: str, staged: Decimal, created: Decimal) -> None:
        """Take a sum of one page in."""
        before = self.measures.get(measure, (Decimal(0), Decimal(0)))
        self.measures[measure] = (before[0] + staged, before[1] + created)

    def to_dict(self) -> dict[str, Any]:
        """What there is to say beside the single accounts."""
        return {
            "totals": [Difference(measure, *sums) for measure, sums in self.measures.items()],
            "skipped": self.skipped,
            "not_comparable": self.not_comparable,
            "differing": self.differing,
            "clean": not self.differing,
        }


def find_differences(
    sessions: sessionmaker[Session], import_supplier_id: int, totals: Totals, *, batch_id: UUID | None = None
) -> Iterator[AccountDifference]:
    """Every account that differs, in the order of the numbers (or of the batch's lines); fills `totals`.

    With `batch_id` only the accounts that are in the batch. What was added to accounts after they were
    created, and moved their balances, is left out on both sides. Each page is a transaction of its own.
    """
    statement = LIST_PAGE if batch_id is None else LIST_PAGE_OF_BATCH
    values: dict[str, Any] = {"import_supplier_id": import_supplier_id, "limit": _PAGE}
    after: Any = "" if batch_id is None else 0
    if batch_id is not None:
        values["batch_id"] = batch_id
    while True:
        with sessions.begin() as session:
            page = session.execute(statement, values | {"after": after}).all()
            found = _compare(session, page, totals) if page else {}
        if not page:
            return
        after = page[-1].place
        yield from _order(page, found)


def _compare(session: Session, page: Sequence[Row[Any]], totals: Totals) -> dict[int, list[Difference]]:
    """The differences of the imported accounts of a page, by the id of their process."""
    imported = [row.id for row in page if row.state == ImportState.IMPORTED and row.has_payload]
    totals.skipped += sum(row.state == ImportState.SKIPPED for row in page)
    totals.not_comparable += sum(not row.has_payload for row in page)
    staged = sum(row.state != ImportState.SKIPPED for row in page)
    totals.add("accounts", Decimal(staged), Decimal(sum(row.has_account for row in page)))
    found: dict[int, list[Difference]] = {}
    for measure, staged_sum, created_sum, differing in session.execute(COMPARE, {"process_ids": imported}):
        totals.add(measure, staged_sum, created_sum)
        for process_id, staged_value, created_value in differing or ():
            difference = Difference(measure, Decimal(staged_value), Decimal(created_value))
            found.setdefault(int(process_id), []).append(difference)
    for row in page:
        is_imported = row.state == ImportState.IMPORTED
        if row.state != ImportState.SKIPPED and not (is_imported and row.has_account):
            created = Decimal(int(row.has_account))
            found.setdefault(row.id, []).insert(0, Difference("accounts", Decimal(1), created))
    totals.differing += len(found)
    return found


def _order(page: Sequence[Row[Any]], found: dict[int, list[Difference]]) -> Iterator[AccountDifference]:
    for row in page:
        if row.id in found:
            yield AccountDifference(
                row.external_account_number, row.service_account_number, row.state, found[row.id]
            )


def stream_id_map(sessions: sessionmaker[Session], import_supplier_id: int) -> Iterator[bytes]:
    """The old and the new number of every account that was created, as CSV with a heading, in pieces."""
    yield write_csv([["external_account_number", "service_account_number", "account_created_at"]])
    after = ""
    while True:
        with sessions.begin() as session:
            values = {"import_supplier_id": import_supplier_id, "after": after, "limit": _PAGE}
            rows = session.execute(ID_MAP, values).all()
        if not rows:
            return
        after = rows[-1].external_account_number
        yield write_csv([number, new, write_moment(created_at)] for number, new, created_at in rows)

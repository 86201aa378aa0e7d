"""The quota of an organisation's staged accounts that are not created yet.

Counting them for each request would cost more than staging an account. Maintenance counts all accounts every
half minute for the metrics, and then stores in Redis which organisations have reached the quota. Web
processes read this list every ten seconds, so an organisation can exceed the quota by the accounts that it
stages in the meantime. While Redis is unavailable, the last list applies.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from redis import Redis
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.connections import log_if_unavailable
from migration_service.errors import StagedQuotaReachedError
from migration_service.models import ImportSupplier
from migration_service.states import ImportState

_NOTE = "migration:staged:full"
#: Seconds for which the list applies. Large tables are counted less often.
_NOTE_SECONDS = 3_600
#: Seconds after which a web process reads the list again.
_READ_AGAIN = 10.0


def find_full_organisations(session: Session, accounts: Sequence[Sequence[Any]], most: int) -> list[int]:
    """Return the ids of the organisations with at least `most` pending accounts.

    `accounts` is the result of `count_accounts`: supplier, state and number.
    """
    pending = {supplier: number for supplier, state, number in accounts if state == ImportState.PENDING}
    if sum(pending.values()) < most:
        return []
    suppliers = select(ImportSupplier.organisation_id, ImportSupplier.code)
    of_organisation: dict[int, int] = {}
    for organisation_id, code in session.execute(suppliers):
        of_organisation[organisation_id] = of_organisation.get(organisation_id, 0) + pending.get(code, 0)
    return [organisation_id for organisation_id, number in of_organisation.items() if number >= most]


def note_full_organisations(redis: Redis, organisation_ids: Collection[int]) -> None:
    """Store for all web processes which organisations have reached the quota."""
    redis.set(_NOTE, json.dumps([*organisation_ids]), ex=_NOTE_SECONDS)


class StagedQuota:
    """The organisations that have reached the quota of `most` accounts, as known to this process."""

    def __init__(self, redis: Redis, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._most = most
        self._clock = clock
        self._read_at = -_READ_AGAIN
        self._full: frozenset[int] = frozenset()

    def require_room(self, organisation_id: int) -> None:
        """Raise StagedQuotaReachedError if the organisation has reached the quota."""
        if self.is_reached(organisation_id):
            raise StagedQuotaReachedError(
                f"Your organisation may have {self._most:,} accounts that are staged but not created."
            )

    def is_reached(self, organisation_id: int) -> bool:
        """Return whether the organisation had reached the quota when its accounts were last counted."""
        now = self._clock()
        if now - self._read_at >= _READ_AGAIN:
            self._read_at = now  # set before reading, so that other threads do not read it as well
            with log_if_unavailable("the quota of staged accounts is not read"):
                self._full = frozenset(json.loads(self._redis.get(_NOTE) or b"[]"))
        return organisation_id in self._full

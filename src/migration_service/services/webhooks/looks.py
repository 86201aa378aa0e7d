"""Where to look for deliveries that are due, so that those which have ended are not read again and again.

The index of pending deliveries keeps an entry of each that has ended until PostgreSQL removes it, and while
an old transaction is open, it removes none. So most looks begin where the ones before them ended. They miss
what was committed late, or is older by the clock of the database than by that of this machine. A whole look
finds it. The longer whole looks take, the less often they are made.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

#: After a whole look, so many times as long as it took passes before the next one.
_PAUSES = 10
#: What was due so long before a whole look can have been committed after it.
_OPEN = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Look:
    """A look for deliveries that became due at `since` or later. Some endpoints have another time."""

    begun: float
    #: None for a whole look.
    since: datetime | None = None
    of_endpoints: Mapping[UUID, datetime] = field(default_factory=dict)


class Looks:
    """The looks of a process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_whole = clock()
        self._since = datetime.now(UTC)
        #: The endpoints that had more to send than they were sent, and how far they came.
        self._behind: dict[UUID, datetime] = {}

    def begin(self) -> Look:
        """Return where to look now."""
        begun = self._clock()
        if begun >= self._next_whole:
            self._since = datetime.now(UTC) - _OPEN
            return Look(begun)
        behind = {it: at for it, at in self._behind.items() if at < self._since}
        return Look(begun, self._since, behind)

    def end(
        self, look: Look, found: Sequence[tuple[UUID, datetime]], rooms: Mapping[UUID, int], *, limit: int
    ) -> None:
        """Note what was found: each endpoint with the time when its delivery became due.

        `rooms` says how many an endpoint could have got, which is one if it is not there.
        """
        if look.since is None:
            now = self._clock()
            self._next_whole = now + _PAUSES * (now - look.begun)
        times = defaultdict(list)
        for endpoint_id, due_at in found:
            times[endpoint_id].append(due_at)
        is_cut = len(found) >= limit
        for endpoint_id in {*self._behind, *times}:
            room, taken = rooms.get(endpoint_id, 1), times[endpoint_id]
            if taken and (is_cut or len(taken) >= room):
                self._behind[endpoint_id] = max(taken)
            elif not is_cut and room > 0:
                self._behind.pop(endpoint_id, None)

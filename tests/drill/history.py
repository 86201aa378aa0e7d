"""The history of all requests of the suppliers: one event for each, with its times and its answer.

A request that was sent again is another event. `model` checks the history.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    """The kinds of requests."""

    STAGE = "stage"
    PROCESS = "process"
    STATUS = "status"
    #: A line of a batch, from its results.
    LINE = "line"
    #: The undo of an account, from its request to its outcome: OK says that the account was reverted.
    UNDO = "undo"


class Result(StrEnum):
    """The conclusions that a client may draw from an answer."""

    #: 2xx: it was done, or accepted.
    OK = "ok"
    #: 4xx: it was not done, and will not be.
    REFUSED = "refused"
    #: 5xx, or no answer: it may have been done, or may still be.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a request is about."""

    act: Act
    #: The external account number.
    number: str
    #: STAGE, LINE: the `billing_address1` of the payload, which differs in each version.
    version: str = ""
    #: PROCESS: the team, and whether it is a dry run.
    team: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One request, from the moment it was sent."""

    question: Question
    #: The id that the client sent with the request, and the key that its token came from.
    request_id: str
    api_key: str
    #: When it was sent, and when it was answered or given up (monotonic).
    invoked: float
    ended: float
    #: The HTTP status. None: no answer.
    status: int | None = None
    #: `code` of an error, or `status` of the status endpoint and of a line.
    said: str = ""
    #: The service account number in the answer.
    told: str = ""
    #: The id of the attempt, in an answer 202.
    attempt_id: str = ""

    @property
    def result(self) -> Result:
        """Return what the client may conclude."""
        if self.status is None or self.status >= 500:
            return Result.UNKNOWN
        return Result.REFUSED if self.status >= 400 else Result.OK


def by_account(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Return the events of each account, in the order in which they were sent."""
    accounts: dict[str, list[Event]] = {}
    for event in sorted(events, key=lambda event: event.invoked):
        accounts.setdefault(event.question.number, []).append(event)
    return accounts

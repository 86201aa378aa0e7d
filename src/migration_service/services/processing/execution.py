"""What a worker does with an attempt, from its message to the recorded outcome (section 4.3)."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.statements import begin
from migration_service.errors import ServiceError
from migration_service.services.imports.states import EndedAttempt
from migration_service.services.processing.attempts import (
    SetApart,
    fail_attempt,
    out_of_tries,
    run_attempt,
    set_apart,
    take_alone,
)
from migration_service.services.processing.creation import explain_refusal, is_refusal
from migration_service.services.processing.sets import MOST_IN_SET, create_set, take_set
from migration_service.states import Outcome

#: Seconds after which a worker begins no further attempt before it takes the next message.
_LONGEST_ROUND = 5.0


@dataclass(frozen=True, slots=True)
class PerformedAttempt:
    """An attempt that has just ended, with its outcome committed."""

    id: UUID
    #: `SUCCEEDED`, or the code of the failure.
    outcome: str
    service_account_number: str | None = None


@dataclass(frozen=True, slots=True)
class PerformedSet:
    """A set that has just ended, with its outcomes committed."""

    #: The attempts that created their accounts.
    ended: Sequence[EndedAttempt] = ()
    #: The attempts that run alone instead.
    apart: SetApart = field(default_factory=SetApart)


def perform_set(
    sessions: sessionmaker[Session],
    *,
    redelivered: bool = False,
    announce: Callable[[], object],
    find_new: Callable[[Sequence[UUID]], Collection[UUID]],
) -> PerformedSet:
    """Create the accounts of the attempts that wait, all of them together, up to the size of a set.

    If the database refuses one, none is created, and each runs alone. So do the attempts of a message that
    was redelivered because its worker died (`redelivered`): one of them may be the reason, and nobody knows
    which they were, so all that wait run alone. Any other error is raised, and leaves them waiting.

    `announce` is called if there may be more attempts than fit into the set. `find_new` returns those that no
    set has taken before. The others run alone, so that one that ends its worker does so in one set only.
    """
    if redelivered:
        return PerformedSet(apart=_set_apart(sessions))
    try:
        with begin(sessions) as transaction:
            taken = take_set(transaction)
            if len(taken) == MOST_IN_SET:
                announce()
            new = find_new([it.attempt.id for it in taken])
            together = [it for it in taken if it.is_valid and it.attempt.id in new]
            ended = create_set(transaction, together)
        others = [it.attempt.id for it in taken if it not in together]
    except DBAPIError as error:
        if not is_refusal(error):
            raise
        ended, others = [], [it.attempt.id for it in taken]
    return PerformedSet(ended, _set_apart(sessions, others) if others else SetApart())


def _set_apart(sessions: sessionmaker[Session], attempt_ids: Sequence[UUID] | None = None) -> SetApart:
    with sessions.begin() as session:
        return set_apart(session, attempt_ids)


def perform_alone(
    sessions: sessionmaker[Session], *, announce: Callable[[], object]
) -> Iterator[PerformedAttempt]:
    """Run an attempt of each organisation that has some which run alone, and yield each that has ended.

    `announce` is called as soon as it is known that others wait, so that further workers run them, or this
    one in its next round. So an organisation with many delays another one by one attempt of its own.
    """
    served: set[int] = set()
    until = time.monotonic() + _LONGEST_ROUND
    while time.monotonic() < until:
        with begin(sessions) as transaction:
            taken = take_alone(transaction, served)
        if taken is None:
            return
        if taken.is_followed and not served:
            announce()
        served.add(taken.organisation_id)
        performed = perform_attempt(sessions, taken.id)
        if performed:
            yield performed


def perform_attempt(sessions: sessionmaker[Session], attempt_id: UUID) -> PerformedAttempt | None:
    """Run an attempt to its end. Return None if there was nothing to do.

    An error of the account ends the attempt. Any other error, such as a lost connection, is raised. It leaves
    the attempt in progress, and the sweep gives it to the workers again.
    """
    try:
        with begin(sessions) as transaction:
            number = run_attempt(transaction, attempt_id)
        return PerformedAttempt(attempt_id, Outcome.SUCCEEDED, number) if number else None
    except ServiceError as error:
        failure = error
    except DBAPIError as error:
        refused = explain_refusal(error)
        if refused is None:
            raise
        failure = refused
    return _fail(sessions, attempt_id, failure)


def give_up_attempt(sessions: sessionmaker[Session], attempt_id: UUID) -> PerformedAttempt | None:
    """End an attempt that is out of tries. Return None if it is no longer current."""
    return _fail(sessions, attempt_id, out_of_tries())


def _fail(
    sessions: sessionmaker[Session], attempt_id: UUID, failure: ServiceError
) -> PerformedAttempt | None:
    with begin(sessions) as transaction:
        failed = fail_attempt(transaction, attempt_id, failure)
    return PerformedAttempt(attempt_id, failure.code) if failed else None

"""Running attempts in a worker, from their message to the recorded outcomes (section 4.3).

The accounts of waiting attempts are created as a set, in one statement and one commit. Creating thirty
accounts together costs half of creating them one by one, and under load requests share a message. A set
contains only ordinary attempts: first tries, no dry runs, with payloads that have passed the rules in force.
Every other attempt runs alone (`attempts.take_alone`), so that an account that the database refuses, or that
crashes its worker, affects others only once.

These functions open their own transactions, because each step has to be committed before the next.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from redis import Redis
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.holding import is_lost
from migration_service.db.sql import autocommit, begin
from migration_service.errors import ServiceError
from migration_service.services.imports.states import EndedAttempt
from migration_service.services.processing import attempts
from migration_service.services.processing.creation import explain_refusal, is_refusal
from migration_service.services.processing.signals import announce, find_new

#: Seconds after which a worker starts no more attempts before it takes the next message.
_LONGEST_ROUND = 5.0


def perform_set(
    sessions: sessionmaker[Session], redis: Redis, *, publish: Callable[[], object], redelivered: bool = False
) -> tuple[list[EndedAttempt], attempts.SetApart]:
    """Create the accounts of waiting attempts together, up to the size of a set.

    Return the attempts that created their accounts, and those that run alone instead. If the database refuses
    an account, or ends the connection after attempts were taken, none is created, and each attempt runs
    alone. After a message was redelivered because its worker died (`redelivered`), all waiting attempts run
    alone: any of them may be the cause, and it is not known which of them the worker had. Any other error is
    raised, and leaves them waiting.

    `publish` is called to announce the rest if there may be more attempts than fit into the set. Attempts
    that were in an earlier set run alone, so that an attempt that crashes its worker does so in one set only.
    """
    ended: list[EndedAttempt] = []
    taken: list[Any] = []
    others: list[UUID] | None = None
    if not redelivered:
        try:
            with begin(sessions) as transaction:
                taken = attempts.take_set(transaction)
                if len(taken) == attempts.MOST_IN_SET:
                    announce(redis, publish)
                new = find_new(redis, [row.id for row in taken])
                together = [row for row in taken if row.id in new and not row.unchecked_payload]
                ended = attempts.create_set(transaction, together)
        except DBAPIError as error:
            if not (taken and (is_refusal(error) or is_lost(sessions, error))):
                raise
            ended = []  # the connection may have ended at the commit
        others = list({row.id for row in taken} - {it.attempt.id for it in ended})
        if not others:
            return ended, attempts.SetApart(others_may_wait=not taken or taken[0].others_run_alone)
    with sessions.begin() as session:
        return ended, attempts.set_apart(session, others)


def perform_alone(
    sessions: sessionmaker[Session], redis: Redis, *, publish: Callable[[], object]
) -> Iterator[EndedAttempt]:
    """Run one of the attempts to run alone for each organisation, and yield those that have ended.

    If others are waiting, they are announced with `publish`, so that more workers run them, or this one in
    its next round. An organisation with many attempts thus delays others by only one attempt.

    An attempt whose connection to the database ended waits for its next try, as if its worker had ended.
    """
    served: set[int] = set()
    until = time.monotonic() + _LONGEST_ROUND
    while time.monotonic() < until:
        with autocommit(sessions) as connection:
            taken = attempts.take_alone(connection, served)
        if taken is None:
            return
        if taken.is_followed and not served:
            announce(redis, publish)
        served.add(taken.organisation_id)
        try:
            ended = perform_attempt(sessions, taken.id)
        except DBAPIError as error:
            if not is_lost(sessions, error):
                raise
            with sessions.begin() as session:
                apart = attempts.set_apart(session, [taken.id])
            yield from apart.exhausted
            if apart.waiting:
                announce(redis, publish)
        else:
            if ended:
                yield ended


def perform_attempt(sessions: sessionmaker[Session], attempt_id: UUID) -> EndedAttempt | None:
    """Run an attempt until its outcome is committed. Return None if there was nothing to do.

    An error of the account ends the attempt. Any other error, such as a lost connection, is raised. The
    attempt stays in progress, and the sweep gives it to the workers again.
    """
    try:
        with begin(sessions) as transaction:
            return attempts.run_attempt(transaction, attempt_id)
    except (ServiceError, DBAPIError) as error:
        failure = error if isinstance(error, ServiceError) else explain_refusal(error)
        if failure is None:
            raise
    with begin(sessions) as transaction:
        return attempts.fail_attempt(transaction, attempt_id, failure)

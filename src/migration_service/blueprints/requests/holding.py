"""Repeating a whole request on the next primary server of PostgreSQL or master of Redis (decision 8).

A request that meets a lost server has no answer yet. If it has not changed anything either, and its body is
still there, it is carried out again as if it had just arrived.
"""

import time

from flask import g
from redis import RedisError

from migration_service.blueprints.requests.places import leave_place, step_aside
from migration_service.blueprints.requests.resources import resources
from migration_service.db import known_commits
from migration_service.db.holding import Outage, is_lost, outage_of, was_held
from migration_service.db.known_commits import count_effects
from migration_service.errors import ServiceUnavailableError

#: What is known of a request before its first handler. Everything else is found out again.
_KEPT = ("began_at", "request_id", "held_until", "decoded")


def disregard_effects() -> None:
    """Count what the request has committed so far as nothing: it may be done twice."""
    g.effects_before = count_effects()


def consume_body() -> None:
    """Say that the request's body is read in blocks, and cannot be read again."""
    g.body_is_consumed = True


def wait_to_repeat(error: Exception) -> bool:
    """Return whether to carry out the request again after `error`, once a server can be written to."""
    outage = _find_outage(error)
    if outage is None or was_held(error) or "body_is_consumed" in g:
        return False
    if count_effects() > g.get("effects_before", 0):
        return False
    until = g.setdefault("held_until", time.monotonic() + known_commits.HOLD_SECONDS)
    step_aside()
    is_back = outage.wait(until)
    leave_place()
    if is_back:
        for name in set(g) - set(_KEPT):
            g.pop(name)
    return is_back


def _find_outage(error: Exception) -> Outage | None:
    """Return what is known of the server that `error` says is lost, if another one is expected."""
    sessions = resources().Session
    if is_lost(sessions, error):
        return outage_of(sessions)
    if isinstance(error, ServiceUnavailableError) and isinstance(error.__cause__, RedisError):
        return resources().redis_outage
    return None

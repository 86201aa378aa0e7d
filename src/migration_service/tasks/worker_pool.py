"""Ending a worker's child processes promptly. This is the only use of billiard, which has no setting for it.

A child that ends waits up to 30 seconds for its parent to count all its results. A result whose
acknowledgement was lost with the connection to Redis is never counted. Nothing here depends on that count,
because the outcome is in the database, so children may end after two seconds.
"""

from typing import Any

from billiard import pool
from celery.signals import worker_init

#: How often a child checks, ten times a second, whether its results have been counted.
_ASKS = 20


def end_children_promptly() -> None:
    """Let the children of a worker end soon after the connection to Redis is lost."""

    def shorten(**_kwargs: Any) -> None:
        pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = _ASKS

    worker_init.connect(shorten, weak=False)

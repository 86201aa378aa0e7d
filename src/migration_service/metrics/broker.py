"""The messages in a Redis broker. Only this module knows how kombu stores its queues there.

Each queue is a list under its own name. Unacknowledged messages are in a hash, whose name is the transport
option `unacked_key`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from redis import Redis

#: The value of the transport option `unacked_key`.
UNACKED_KEY = "unacked"


@dataclass(frozen=True, slots=True)
class BrokerCounts:
    """The numbers of messages in the broker."""

    #: The number of messages that no worker has taken yet, by queue.
    waiting: dict[str, int]
    #: The number of messages that workers have taken but not acknowledged.
    unacknowledged: int


def read_broker(broker: Redis, queues: Sequence[str], key_prefix: str) -> BrokerCounts:
    """Return the lengths of the queues. All keys of the broker start with `key_prefix`."""
    with broker.pipeline(transaction=False) as pipeline:
        for queue in queues:
            pipeline.llen(key_prefix + queue)
        pipeline.hlen(key_prefix + UNACKED_KEY)
        *waiting, unacknowledged = pipeline.execute()
    return BrokerCounts(dict(zip(queues, waiting, strict=True)), unacknowledged)

"""A worker goes on when Redis did not answer an acknowledgement. Kombu has no setting for this.

Kombu counts a message until its acknowledgement has succeeded, and Celery only logs one that fails. After as
many of these as it has children, a worker takes no message any more, although everything else is well again.
"""

from kombu.transport import redis, virtual


class _QoS(redis.QoS):
    """The messages that a worker has taken. One whose acknowledgement fails counts no longer.

    It stays unacknowledged in Redis and is redelivered later, when it finds nothing to do.
    """

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)
        except BaseException:
            virtual.QoS.ack(self, delivery_tag)
            raise


def release_what_is_not_acknowledged() -> None:
    """Let this worker take other messages if Redis does not answer. Call it before it connects."""
    redis.Channel.QoS = _QoS

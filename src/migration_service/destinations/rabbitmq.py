"""The adapter for endpoints that are queues of RabbitMQ, with an address such as amqps://host/vhost?queue=NAME.

A message counts as delivered when RabbitMQ confirms that it is in the queue. It is persistent, and its
headers are those of Standard Webhooks. As over HTTP, exactly the checked addresses are connected to.
"""

import socket
import ssl
import time
from collections import defaultdict
from collections.abc import Callable
from queue import Empty, LifoQueue
from typing import Any
from urllib.parse import unquote, urlsplit

import amqp
from amqp.exceptions import AccessRefused, AMQPError, MessageNacked

from migration_service.destinations.protocol import Message, Outcome, queue_of
from migration_service.outgoing.rules import AddressNotAllowedError, AddressRules
from migration_service.states import DeliveryFailure

_PORTS = {"amqps": 5671, "amqp": 5672}
#: Seconds for connecting, and for the confirmation of a message.
_CONNECT_SECONDS, _CONFIRM_SECONDS = 4.0, 10.0
#: The most idle connections to each queue.
_IDLE = 32

_CAUSES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], DeliveryFailure], ...] = (
    (AddressNotAllowedError, DeliveryFailure.ADDRESS_NOT_ALLOWED),
    ((socket.gaierror, UnicodeError), DeliveryFailure.HOST_UNKNOWN),
    (ssl.SSLError, DeliveryFailure.TLS),
    ((AccessRefused, MessageNacked), DeliveryFailure.REFUSED),
    (TimeoutError, DeliveryFailure.TIMEOUT),
)


class RabbitDestination:
    """Queues of RabbitMQ. Each thread has a connection of its own while it sends."""

    def __init__(self, rules: AddressRules, certificates: Callable[[], str]) -> None:
        self._rules = rules
        self._certificates = certificates
        self._idle: dict[tuple[str, str | None], LifoQueue[_Link]] = defaultdict(lambda: LifoQueue(_IDLE))

    def send(self, message: Message) -> Outcome:
        """Publish the message, and wait until RabbitMQ confirms it. Return what came of it."""
        links = self._idle[(message.url, message.credentials)]
        while True:
            link, is_new = self._take(links, message)
            if isinstance(link, Outcome):
                return link
            try:
                failure = link.publish(message)
            except (AMQPError, OSError) as error:
                link.close()
                if is_new:
                    return Outcome(failure=_explain(error))
                continue  # RabbitMQ may have closed a connection that was idle
            if links.full():
                link.close()
            else:
                links.put(link)
            return Outcome(failure=failure)

    def close(self) -> None:
        """Close the idle connections."""
        for links in self._idle.values():
            while not links.empty():
                links.get().close()

    def _take(self, links: "LifoQueue[_Link]", message: Message) -> "tuple[_Link | Outcome, bool]":
        try:
            return links.get_nowait(), False
        except Empty:
            pass
        try:
            return _Link(message, self._rules, self._certificates), True
        except (AMQPError, OSError, ValueError) as error:
            return Outcome(failure=_explain(error)), True


class _Link:
    """A connection with a channel that waits for confirmations."""

    def __init__(self, message: Message, rules: AddressRules, certificates: Callable[[], str]) -> None:
        parts = urlsplit(message.url)
        self._queue = queue_of(message.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        user, _, password = (message.credentials or "").partition(":")
        tls: dict[str, Any] | bool = False
        if parts.scheme == "amqps":
            tls = {"server_hostname": host, "cert_reqs": ssl.CERT_REQUIRED, "ca_certs": certificates()}
        deadline = time.monotonic() + _CONNECT_SECONDS
        failure: OSError = OSError("the host has no address")
        for address in rules.resolve(host, port):
            try:
                self._connection = amqp.Connection(
                    host=f"[{address}]:{port}" if ":" in address else f"{address}:{port}",
                    userid=user,
                    password=password,
                    virtual_host=unquote(parts.path.removeprefix("/")) or "/",
                    ssl=tls,
                    connect_timeout=max(0.1, deadline - time.monotonic()),
                    read_timeout=_CONFIRM_SECONDS,
                    write_timeout=_CONFIRM_SECONDS,
                    confirm_publish=True,
                )
                self._connection.connect()
                break
            except OSError as error:
                failure = error
        else:
            raise failure
        self._returned: list[object] = []
        self._channel = self._connection.channel()
        events: Any = self._channel.events  # type: ignore[attr-defined]
        events["basic_return"].add(lambda *told: self._returned.append(told))

    def publish(self, message: Message) -> DeliveryFailure | None:
        """Publish a message and wait for its confirmation. Return why it is in no queue."""
        self._returned.clear()
        content_type = message.headers["Content-Type"]
        others = {name: value for name, value in message.headers.items() if name.startswith("webhook-")}
        body = amqp.Message(
            message.body,
            content_type=content_type,
            delivery_mode=2,
            message_id=message.headers["webhook-id"],
            application_headers=others,
        )
        self._channel.basic_publish(
            body, exchange="", routing_key=self._queue, mandatory=True, confirm_timeout=_CONFIRM_SECONDS
        )
        return DeliveryFailure.QUEUE_UNKNOWN if self._returned else None

    def close(self) -> None:
        """Close the connection, whatever its state."""
        self._connection.collect()


def _explain(error: BaseException) -> DeliveryFailure:
    return next(
        (failure for kinds, failure in _CAUSES if isinstance(error, kinds)), DeliveryFailure.CONNECTION
    )

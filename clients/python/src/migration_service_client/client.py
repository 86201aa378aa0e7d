"""The clients: they take the steps of `conversations`, one with threads and one with asyncio."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from migration_service_client import conversations
from migration_service_client.answers import LineReader
from migration_service_client.calls import Call
from migration_service_client.errors import ClientError, ServiceUnreachable
from migration_service_client.operations import Operations, get_api_key
from migration_service_client.requests import Lines, Pages, Request
from migration_service_client.transfers import Connections, Network, Way, examine
from migration_service_client.uploads import Upload

T = TypeVar("T")

# A child that was forked leaves the connections of its parent open.
_of_parents: list[Connections] = []


class _Base(Operations):
    """What both clients have."""

    create_account = Call(conversations.create_account)
    wait_for_batch = Call(conversations.wait_for_batch)
    wait_for_undo = Call(conversations.wait_for_undo)

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 120.0,
        patience: float = 600.0,
        connections: int = 100,
        ca_file: str | os.PathLike[str] | None = None,
        proxy: str | None = None,
    ) -> None:
        """Prepare a client. Nothing is sent yet.

        `timeout`: seconds without a byte after which a connection counts as broken, and one more for each
        10 MB of a file that is sent, which the service stores before it answers. `patience`: seconds of
        pauses after which a request is not sent again. `connections`: how many are open at most. `ca_file`:
        a file (PEM) with the certificates to trust, instead of those of the operating system. `proxy`: the
        address of a proxy, instead of those in the environment's variables `https_proxy`, `http_proxy` and
        `no_proxy`.
        """
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.hostname or "@" in address.netloc:
            raise ValueError("base_url is not an address that begins with https:// or http://.")
        self._base_url = base_url.rstrip("/")
        self._policy = conversations.Policy(patience)
        self._tokens = conversations.Tokens(api_key.strip())
        self._network = Network(
            self._base_url, timeout, connections, None if ca_file is None else os.fspath(ca_file), proxy
        )
        self._prepare()

    def _prepare(self) -> None:
        """Make what belongs to one process."""
        self._connections = Connections(self._network)
        self._process = os.getpid()

    def _look_around(self) -> None:
        """Begin anew in a process that was forked: two must not write to one connection."""
        if self._process != os.getpid():
            _of_parents.append(self._connections)
            self._prepare()

    def examine(self) -> tuple[conversations.Answer | conversations.NoAnswer, Way]:
        """Send one request without a token, and tell the way that it went: for what does not work."""
        return examine(self._network, get_api_key())

    def __repr__(self) -> str:
        """Return a text without the key."""
        return f"{type(self).__name__}({self._base_url!r})"


class Client(_Base):
    """A client for programs with threads, which may all use one. Close it, or use it in a `with`
    statement."""

    def _prepare(self) -> None:
        super()._prepare()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def send(self, asked: Request[T] | conversations.Conversation[T]) -> T:
        """Send a request, as often as it takes, and return its answer."""
        try:
            return self._converse(asked)
        finally:
            if isinstance(asked, Request) and isinstance(asked.body, Upload):
                asked.body.close()

    def _converse(self, asked: Request[T] | conversations.Conversation[T]) -> T:
        talk = conversations.conversation(asked, self._policy)
        result, error = None, None
        while True:
            try:
                step = talk.throw(error) if error else talk.send(result)
            except StopIteration as end:
                answer: T = end.value
                return answer
            result, error = None, None
            try:
                result = self._take(step)
            except ClientError as failed:
                error = failed

    def iterate(self, request: Pages[T] | Lines[T]) -> Iterator[T]:
        """Yield the items of a list or of a stream."""
        following: Pages[T] | None = request if isinstance(request, Pages) else None
        while following is not None:
            items, following = self.send(conversations.page(following, self._policy))
            yield from items
        if isinstance(request, Lines):
            yield from self._lines(request)

    def _lines(self, request: Lines[T]) -> Iterator[T]:
        answer = self.send(conversations.exchange(request, self._policy, is_streamed=True))
        reader = LineReader(request)
        with closing(answer.stream):
            while (chunk := answer.stream.take()) is not None:
                yield from reader.feed(_whole(request, chunk))
            yield from reader.end()

    def _take(self, step: conversations.Step) -> Any:
        match step:
            case conversations.Send():
                return self._send(step)
            case conversations.Pause(seconds):
                time.sleep(seconds)
                return None
            case conversations.Authorize(stale):
                return self._authorize(stale)
            case Request():
                return self.send(step)

    def _authorize(self, stale: str | None) -> str:
        with self._lock:
            now = time.monotonic()
            if token := self._tokens.current(stale, now):
                return token
            return self.send(self._tokens.renewal(now))

    def _send(self, step: conversations.Send) -> conversations.Answer | conversations.NoAnswer:
        self._look_around()
        if isinstance(step.request.body, Upload):
            step.request.body.prepare()
        return self._connections.send(step)


class AsyncClient(_Base):
    """A client for programs with asyncio. Close it, or use it in an `async with` statement."""

    def _prepare(self) -> None:
        super()._prepare()
        self._lock = asyncio.Lock()
        self._threads = ThreadPoolExecutor(self._network.connections, "migration-service-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._connections.close()

    async def send(self, asked: Request[T] | conversations.Conversation[T]) -> T:
        """Send a request, as often as it takes, and return its answer."""
        try:
            return await self._converse(asked)
        finally:
            if isinstance(asked, Request) and isinstance(asked.body, Upload):
                asked.body.close()

    async def _converse(self, asked: Request[T] | conversations.Conversation[T]) -> T:
        talk = conversations.conversation(asked, self._policy)
        result, error = None, None
        while True:
            try:
                step = talk.throw(error) if error else talk.send(result)
            except StopIteration as end:
                answer: T = end.value
                return answer
            result, error = None, None
            try:
                result = await self._take(step)
            except ClientError as failed:
                error = failed

    async def iterate(self, request: Pages[T] | Lines[T]) -> AsyncIterator[T]:
        """Yield the items of a list or of a stream."""
        following: Pages[T] | None = request if isinstance(request, Pages) else None
        while following is not None:
            items, following = await self.send(conversations.page(following, self._policy))
            for item in items:
                yield item
        if isinstance(request, Lines):
            async with aclosing(self._lines(request)) as lines:
                async for item in lines:
                    yield item

    async def _lines(self, request: Lines[T]) -> AsyncGenerator[T, None]:
        answer = await self.send(conversations.exchange(request, self._policy, is_streamed=True))
        reader = LineReader(request)
        with closing(answer.stream):
            while (chunk := await self._in_thread(answer.stream.take)) is not None:
                for item in reader.feed(_whole(request, chunk)):
                    yield item
            for item in reader.end():
                yield item

    async def _take(self, step: conversations.Step) -> Any:
        match step:
            case conversations.Send():
                return await self._send(step)
            case conversations.Pause(seconds):
                await asyncio.sleep(seconds)
                return None
            case conversations.Authorize(stale):
                return await self._authorize(stale)
            case Request():
                return await self.send(step)

    async def _authorize(self, stale: str | None) -> str:
        async with self._lock:
            now = time.monotonic()
            if token := self._tokens.current(stale, now):
                return token
            return await self.send(self._tokens.renewal(now))

    async def _send(self, step: conversations.Send) -> conversations.Answer | conversations.NoAnswer:
        self._look_around()
        if isinstance(step.request.body, Upload):
            await step.request.body.prepare_async()
        cancelled = threading.Event()
        try:
            return await self._in_thread(self._connections.send, step, cancelled.is_set)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


def _whole(request: Request[Any], chunk: bytes | conversations.NoAnswer) -> bytes:
    """Return the chunk of a stream. Raise ServiceUnreachable if the stream broke off."""
    if isinstance(chunk, conversations.NoAnswer):
        raise ServiceUnreachable(f"{request.operation} broke off: {chunk.reason}")
    return chunk

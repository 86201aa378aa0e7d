"""The clients: they take the steps of `conversations`, one with threads and one with asyncio."""

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, closing
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx2

from migration_service_client import conversations
from migration_service_client.answers import LineReader
from migration_service_client.calls import Call
from migration_service_client.conversations import (
    Answer,
    Authorize,
    Conversation,
    NoAnswer,
    Pause,
    Policy,
    Send,
    Step,
    Tokens,
)
from migration_service_client.errors import ClientError, ServiceUnreachable
from migration_service_client.operations import Operations
from migration_service_client.requests import Lines, Pages, Request
from migration_service_client.uploads import Upload

T = TypeVar("T")

_VERSION = "0.1.0"

_sends: ContextVar[bool] = ContextVar("migration_service_client_sends", default=False)


def _not_ours(record: logging.LogRecord) -> bool:
    return not _sends.get()


# They log addresses, which have numbers of accounts. What others send with the library is logged as before.
for _name in ("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.proxy"):
    logging.getLogger(_name).addFilter(_not_ours)


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
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        """Prepare a client. Nothing is sent yet.

        `timeout`: seconds without a byte after which a connection counts as broken. `patience`: seconds of
        pauses after which a request is not sent again. `connections`: how many are open at most. `tls`:
        another context than one with the certificates of the operating system. `proxy`: the address of a
        proxy, instead of those in the environment's variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
        """
        if urlsplit(base_url).scheme not in ("http", "https") or not urlsplit(base_url).hostname:
            raise ValueError("base_url is not an address that begins with https:// or http://.")
        self._base_url = base_url.rstrip("/")
        self._policy = Policy(patience)
        self._tokens = Tokens(api_key.strip())
        self._options: dict[str, Any] = {
            "timeout": timeout,
            "limits": httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
            "verify": True if tls is None else tls,
            "proxy": proxy,
            "headers": {"User-Agent": f"migration-service-client/{_VERSION}"},
        }
        self._prepare()

    def _prepare(self) -> None:
        """Make the connection pool and the lock of the tokens."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return a text without the key."""
        return f"{type(self).__name__}({self._base_url!r})"

    def _arguments(self, step: Send, content: Any) -> dict[str, Any]:
        request = step.request
        headers = {name: value for name, value in request.headers.items() if value is not None}
        if step.token is not None:
            headers["Authorization"] = f"Token {step.token}"
        if isinstance(request.body, Upload):
            headers["Content-Length"] = str(request.body.size)
        return {
            "method": request.method,
            "url": self._base_url + request.target,
            "headers": headers,
            "content": content,
        }


class Client(_Base):
    """A client for programs with threads, which may all use one. Close it, or use it in a `with`
    statement."""

    def _prepare(self) -> None:
        self._lock = threading.Lock()
        self._http = httpx2.Client(**self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def send(self, asked: Request[T] | Conversation[T]) -> T:
        """Send a request, as often as it takes, and return its answer."""
        try:
            return self._converse(asked)
        finally:
            if isinstance(asked, Request) and isinstance(asked.body, Upload):
                asked.body.close()

    def _converse(self, asked: Request[T] | Conversation[T]) -> T:
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
        reader = LineReader(request.answer, request.accept)
        with closing(answer.stream):
            try:
                for chunk in answer.stream.iter_bytes():
                    yield from reader.feed(chunk)
            except httpx2.TransportError as error:
                raise _broken(request, error) from error
            yield from reader.end()

    def _take(self, step: Step) -> Any:
        match step:
            case Send():
                return self._send(step)
            case Pause(seconds):
                time.sleep(seconds)
                return None
            case Authorize(stale):
                return self._authorize(stale)
            case Request():
                return self.send(step)

    def _authorize(self, stale: str | None) -> str:
        with self._lock:
            now = time.monotonic()
            if token := self._tokens.current(stale, now):
                return token
            return self.send(self._tokens.renewal(now))

    def _send(self, step: Send) -> Answer | NoAnswer:
        body = step.request.body
        if isinstance(body, Upload):
            body.prepare()
        content = body.chunks() if isinstance(body, Upload) else body
        began, ours = time.monotonic(), _sends.set(True)
        try:
            sent = self._http.build_request(**self._arguments(step, content))
            response = self._http.send(sent, stream=True)
            if step.is_streamed and response.is_success:
                return Answer(response.status_code, dict(response.headers), stream=response)
            with closing(response):
                text = response.read()
        except httpx2.TransportError as error:
            return _no_answer(error)
        finally:
            _sends.reset(ours)
        return Answer(response.status_code, dict(response.headers), text, time.monotonic() - began)


class AsyncClient(_Base):
    """A client for programs with asyncio. Close it, or use it in an `async with` statement."""

    def _prepare(self) -> None:
        self._lock = asyncio.Lock()
        self._http = httpx2.AsyncClient(**self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def send(self, asked: Request[T] | Conversation[T]) -> T:
        """Send a request, as often as it takes, and return its answer."""
        try:
            return await self._converse(asked)
        finally:
            if isinstance(asked, Request) and isinstance(asked.body, Upload):
                asked.body.close()

    async def _converse(self, asked: Request[T] | Conversation[T]) -> T:
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
        reader = LineReader(request.answer, request.accept)
        async with aclosing(answer.stream):
            try:
                async for chunk in answer.stream.aiter_bytes():
                    for item in reader.feed(chunk):
                        yield item
            except httpx2.TransportError as error:
                raise _broken(request, error) from error
            for item in reader.end():
                yield item

    async def _take(self, step: Step) -> Any:
        match step:
            case Send():
                return await self._send(step)
            case Pause(seconds):
                await asyncio.sleep(seconds)
                return None
            case Authorize(stale):
                return await self._authorize(stale)
            case Request():
                return await self.send(step)

    async def _authorize(self, stale: str | None) -> str:
        async with self._lock:
            now = time.monotonic()
            if token := self._tokens.current(stale, now):
                return token
            return await self.send(self._tokens.renewal(now))

    async def _send(self, step: Send) -> Answer | NoAnswer:
        body = step.request.body
        if isinstance(body, Upload):
            await body.prepare_async()
        content = body.chunks_async() if isinstance(body, Upload) else body
        began, ours = time.monotonic(), _sends.set(True)
        try:
            sent = self._http.build_request(**self._arguments(step, content))
            response = await self._http.send(sent, stream=True)
            if step.is_streamed and response.is_success:
                return Answer(response.status_code, dict(response.headers), stream=response)
            async with aclosing(response):
                text = await response.aread()
        except httpx2.TransportError as error:
            return _no_answer(error)
        finally:
            _sends.reset(ours)
        return Answer(response.status_code, dict(response.headers), text, time.monotonic() - began)


def _no_answer(error: httpx2.TransportError) -> NoAnswer:
    """Return why no answer came. A certificate that is refused would be refused again."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    reason = f"{type(error).__name__}: {cause or error}"
    return NoAnswer(reason, is_final=cause is not None or isinstance(error, httpx2.UnsupportedProtocol))


def _broken(request: Request[Any], error: Exception) -> ServiceUnreachable:
    return ServiceUnreachable(f"{request.operation} broke off: {type(error).__name__}")

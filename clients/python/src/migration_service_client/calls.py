"""Functions that make requests, as methods of both clients.

`Client.get_batch(...)` returns the answer, and `AsyncClient.get_batch(...)` an awaitable of it, from one
function that returns the request. So the two have the same names, arguments and types, and nothing is written
twice.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from migration_service_client.requests import Lines, Pages, Request

if TYPE_CHECKING:
    from migration_service_client.client import AsyncClient, Client
    from migration_service_client.conversations import Conversation

P = ParamSpec("P")
T = TypeVar("T")


class Call(Generic[P, T]):
    """A method with one answer."""

    def __init__(self, make: "Callable[P, Request[T] | Conversation[T]]") -> None:
        self._make = make

    @overload
    def __get__(self, client: None, owner: type) -> "Callable[P, Request[T] | Conversation[T]]": ...
    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the function of the request, or one that sends the request with this client."""
        return self._make if client is None else _bound(self._make, client.send)


class Each(Generic[P, T]):
    """A method whose answer is an iterator. The next page is asked for when all items of one were taken."""

    def __init__(self, make: "Callable[P, Pages[T] | Lines[T]]") -> None:
        self._make = make

    @overload
    def __get__(self, client: None, owner: type) -> "Callable[P, Pages[T] | Lines[T]]": ...
    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the function of the request, or one that iterates over its answer with this client."""
        return self._make if client is None else _bound(self._make, client.iterate)


def _bound(make: Callable[..., Any], send: Callable[[Any], Any]) -> Callable[..., Any]:
    @wraps(make)
    def call(*arguments: Any, **keywords: Any) -> Any:
        return send(make(*arguments, **keywords))

    return call

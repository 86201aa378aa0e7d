"""The place of a request in its web process (`shares`): taken when the sender is known, left at the end."""

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from flask import Response, g, request

from migration_service.blueprints.requests.resources import resources
from migration_service.services.access.throttle import client_of


def enter_place(organisation_id: int | None = None) -> None:
    """Wait for a place for the current request's sender: its organisation, or else its address.

    Raise ShareUsedError if other senders need the process.
    """
    owner = client_of(request.remote_addr) if organisation_id is None else organisation_id
    g.place = resources().places.enter(owner)


def step_aside() -> None:
    """Let another request of the sender run, because this one will only wait."""
    if "place" in g:
        resources().places.step_aside(g.place)


@contextmanager
def database_searches() -> Iterator[None]:
    """Count a view's time as its cost, because the database reads a lot for it.

    This includes the pieces of its response if they are made `in_turns`.
    """
    started, g.is_searching = time.monotonic(), True
    try:
        yield
    finally:
        if "place" in g:
            g.place.searched = time.monotonic() - started


def in_turns(made: Iterable[Any], pieces: Iterator[Any]) -> Iterator[Any]:
    """Yield `made`, then `pieces`. Each piece is made while the current request has its turn to run.

    Between pieces, a slow client holds up nobody. Requests of the console have no turns.
    """
    places, place = resources().places, g.get("place")
    is_searching = g.get("is_searching", False)

    def make() -> Any:
        places.come_back(place)
        started = time.monotonic()
        try:
            return next(pieces, None)
        finally:
            place.searched = (time.monotonic() - started) * is_searching
            places.step_aside(place)

    def whole() -> Iterator[Any]:
        try:
            yield from made
            yield from pieces if place is None else iter(make, None)
        finally:  # even if the client disconnects
            if isinstance(pieces, Generator):
                pieces.close()
            if place is not None:
                places.leave(place)

    return whole()


def leave_with_last_byte(response: Response) -> None:
    """Leave the place of the request when its response was sent. Console requests have none."""
    if "place" not in g:
        return
    places, place = resources().places, g.pop("place")
    if response.is_streamed:
        places.step_aside(place)
        response.call_on_close(lambda: places.leave(place))
    else:
        places.leave(place)


def leave_place() -> None:
    """Leave the place of a request whose thread has ended without a response, or which starts again."""
    if "place" in g:
        resources().places.leave(g.pop("place"))

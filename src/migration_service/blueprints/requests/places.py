"""The place of a request in its web process (`shares`): taken when the sender is known, left at the end."""

import logging
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from flask import Response, current_app, g, request
from flask.globals import app_ctx

from migration_service.blueprints.requests.resources import resources
from migration_service.db.cancelling import Work
from migration_service.errors import ShareUsedError
from migration_service.services.access.throttle import client_of

logger = logging.getLogger(__name__)

#: Seconds after which a long answer begins, and between the pieces that tell whether the client has gone.
PATIENCE, _BETWEEN_PIECES = 3.0, 1.0


#: The key in a request's environment if it was refused a place before it came to Flask.
REFUSED = "migration_service.refused"


def enter_place(organisation_id: int | None = None) -> None:
    """Wait for a place for the current request's sender: its organisation, or else its address.

    Raise ShareUsedError if other senders need the process.
    """
    if REFUSED in request.environ:
        raise ShareUsedError
    owner = client_of(request.remote_addr) if organisation_id is None else organisation_id
    g.place = resources().places.enter(owner)


def step_aside() -> None:
    """Let another request of the sender run, because this one will only wait."""
    if "place" in g:
        resources().places.step_aside(g.place)


@contextmanager
def database_searches() -> Iterator[None]:
    """Count a view's time as its cost, because the database reads a lot for it.

    This includes the pieces of its response if they are made in `Turns`.
    """
    started, g.is_searching = time.monotonic(), True
    try:
        yield
    finally:
        if "place" in g:
            g.place.searched = time.monotonic() - started


def begin_answer(status: int = 200, location: str | None = None) -> None:
    """Let the answer begin if the rest takes longer, because nothing can be refused any more.

    The view must be one that `while_client_waits` follows.
    """
    g.begun = status, {} if location is None else {"Location": location}


def while_client_waits(view: Callable[..., Any]) -> Callable[..., Any]:
    """Let a view that may take minutes end when its client has gone.

    The web server notices that only when it is given something to send. So once the view has called
    `begin_answer`, and PATIENCE seconds are over, the answer begins, and is given blanks until the rest is
    there. An error after that breaks it off. The view must answer with JSON.
    """

    @wraps(view)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        work = Work(resources().connections, lambda: current_app.make_response(view(*args, **kwargs)))
        if wait_until_begun(work):
            return work.result()
        return answer_in_time(work, lambda: work.result().get_data(), "application/json")

    return wrapper


def wait_until_begun(work: Work[Any], is_begun: Callable[[], bool] = lambda: "begun" in g) -> bool:
    """Return True when the work has ended, or False when it takes longer and its answer may begin.

    The processor time of work that has ended counts as the request's.
    """
    has_ended = work.wait(PATIENCE)
    while not has_ended and not is_begun():
        has_ended = work.wait(_BETWEEN_PIECES)
    if has_ended and "place" in g:
        g.place.searched += work.seconds
    return has_ended


def answer_in_time(work: Work[Any], get_data: Callable[[], bytes], mimetype: str) -> Response:
    """Return the response that begins now, and has the data once the work has ended."""
    g.is_searching = True
    status, headers = g.get("begun", (200, {}))
    made = Turns(lambda: [get_data()], iter(()), work)
    return Response(made, status, headers, mimetype=mimetype)


class Turns:
    """The pieces of a response. Each is made while the current request has its turn to run.

    Between pieces, a slow client holds up nobody. Requests of the console have no turns. While a piece is
    made, empty ones let the web server see whether the client is still there. If not, the statements are
    cancelled. An error does not reach the web server, which would end the response as if it were complete.
    """

    def __init__(
        self,
        begin: Callable[[], list[Any]],
        pieces: Iterator[Any],
        work: Work[Any] | None = None,
        *,
        broken_off: bytes = b"",
    ) -> None:
        """Call `begin`, which returns the first pieces and whose errors are raised, if it takes no longer.

        `work` is what `begin` waits for, if that is known to take longer than PATIENCE. `broken_off` is sent
        instead of the pieces from the first one on that cannot be made.
        """
        self._places, self._place = resources().places, g.get("place")
        self._connections = resources().connections
        self._pieces, self._is_searching = pieces, g.get("is_searching", False)
        self._started = time.monotonic()
        #: What the view itself has cost.
        self._cost = self._place.cost() if self._place else 0.0
        g.keeps_turn = True
        self._work, self._begin = work, begin
        self._broken_off = broken_off
        #: What is sent while the client waits: blanks, which JSON and HTML may have, or nothing.
        self._blank = b"" if work is None else b" "
        if work is None:
            self._work = first = Work(self._connections, begin)
            self._begin = first.result
            if first.wait(PATIENCE):
                first.result()
        self._made = self._make_all()

    def __iter__(self) -> Iterator[Any]:
        """Return the pieces."""
        return self._made

    def close(self) -> None:
        """End what is under way, whether or not everything was sent."""
        if self._work is not None:
            self._work.abandon()
        self._made.close()
        if isinstance(self._pieces, Generator):
            self._pieces.close()
        self._end_turn()
        if self._place is not None:
            self._places.leave(self._place)

    def _make_all(self) -> Generator[Any, None, None]:
        try:
            yield from self._make()
        except Exception:
            logger.exception("A response broke off, because the rest of it could not be made.")
            yield self._broken_off

    def _make(self) -> Iterator[Any]:
        yield from self._waiting()
        yield from self._begin()
        while True:
            if self._place is not None:
                self._places.come_back(self._place)
            self._started, self._cost = time.monotonic(), 0.0
            self._work = work = Work(self._connections, lambda: next(self._pieces, None))
            yield from self._waiting()
            piece = work.result()
            if piece is None:
                return
            yield piece
            del piece

    def _waiting(self) -> Iterator[bytes]:
        while self._work and not self._work.wait(_BETWEEN_PIECES):
            yield self._blank
        self._end_turn()

    def _end_turn(self) -> None:
        """Let another request run, and charge what this one has cost in the threads of its work."""
        if self._place is not None:
            self._place.start()
            searched = (time.monotonic() - self._started) * self._is_searching
            self._place.searched = self._cost + searched + (self._work.seconds if self._work else 0.0)
            self._places.step_aside(self._place)


def leave_with_last_byte(response: Response) -> None:
    """Leave the place of the request when its response was sent. Console requests have none."""
    here = app_ctx.g
    if "place" not in here:
        return
    places, place = resources().places, here.pop("place")
    if response.is_streamed:
        if not here.get("keeps_turn"):
            places.step_aside(place)
        response.call_on_close(lambda: places.leave(place))
    else:
        places.leave(place)


def leave_place() -> None:
    """Leave the place of a request whose thread has ended without a response, or which starts again."""
    if "place" in g:
        resources().places.leave(g.pop("place"))

"""Most looks begin where those before them ended, and whole looks find what they miss."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from migration_service.services.webhooks.looks import Look, Looks

_LONG_AGO = datetime.now(UTC) - timedelta(hours=1)
_ONE, _OTHER = uuid4(), uuid4()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _look(
    looks: Looks, clock: Clock, *found: UUID, seconds: float = 0.125, room: int = 2, limit: int = 10
) -> Look:
    """Look and find deliveries of these endpoints, each due a minute after the one before it."""
    look = looks.begin()
    clock.now += seconds
    times = [(it, _LONG_AGO + timedelta(minutes=index)) for index, it in enumerate(found)]
    looks.end(look, times, {_ONE: room, _OTHER: room}, limit=limit)
    return look


def test_whole_looks_take_a_small_part_of_the_time() -> None:
    clock = Clock()
    looks = Looks(clock)
    whole = [_look(looks, clock).since is None for _ in range(25)]
    assert whole == [it in (0, 11, 22) for it in range(25)]


def test_a_look_begins_shortly_before_the_last_whole_one() -> None:
    clock = Clock()
    looks = Looks(clock)
    began = datetime.now(UTC)
    _look(looks, clock)
    look = looks.begin()
    assert look.since is not None
    assert began - timedelta(seconds=3) < look.since < datetime.now(UTC)
    assert look.of_endpoints == {}


def test_an_endpoint_with_more_to_send_goes_on_after_what_it_was_sent() -> None:
    clock = Clock()
    looks = Looks(clock)
    _look(looks, clock, _ONE, _ONE, _OTHER)
    behind = _LONG_AGO + timedelta(minutes=1)
    assert looks.begin().of_endpoints == {_ONE: behind}
    # It was sent too much at a time to say whether there is more.
    _look(looks, clock, room=0)
    assert looks.begin().of_endpoints == {_ONE: behind}
    _look(looks, clock, _ONE)
    assert looks.begin().of_endpoints == {}


def test_a_look_that_was_cut_says_nothing_about_endpoints_that_it_does_not_have() -> None:
    clock = Clock()
    looks = Looks(clock)
    _look(looks, clock, _ONE, _ONE)
    _look(looks, clock, _OTHER, limit=1)
    assert looks.begin().of_endpoints == {_ONE: _LONG_AGO + timedelta(minutes=1), _OTHER: _LONG_AGO}

"""What is kept in memory, and for how long, with a clock that stands still."""

import time

import pytest

from migration_service.db.reference_data import lease as lease_module
from migration_service.db.reference_data.lease import Lease

_ROWS = [("row",)]


class _Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def lease(clock: _Clock) -> Lease:
    """A lease of one second that was extended just now, and one row that is kept."""
    lease = Lease(1.0, clock)
    lease.begin("server")
    lease.extend(clock())
    _keep(lease)
    return lease


def _keep(lease: Lease, *, seconds_left: float | None = None) -> None:
    lease.keep("key", _ROWS, lease.begin_look_up(), "server", seconds_left)


def test_rows_are_used_until_the_lease_has_run_out(lease: Lease, clock: _Clock) -> None:
    clock.seconds += 0.999
    assert lease.find("key") == _ROWS
    clock.seconds += 0.001
    assert lease.find("key") is None


def test_rows_are_used_again_after_an_extension(lease: Lease, clock: _Clock) -> None:
    clock.seconds += 5
    lease.extend(clock())
    assert lease.find("key") == _ROWS


def test_the_lease_counts_from_the_beginning_of_the_round_trip(lease: Lease, clock: _Clock) -> None:
    began_at = clock()
    clock.seconds += 30  # the process, the server or the network was frozen meanwhile
    lease.extend(began_at)
    assert lease.find("key") is None


def test_rows_that_end_by_themselves_are_not_used_longer(lease: Lease, clock: _Clock) -> None:
    _keep(lease, seconds_left=0.5)
    assert lease.find("key") == _ROWS
    clock.seconds += 0.5
    lease.extend(clock())
    assert lease.find("key") is None


def test_the_time_that_rows_have_left_counts_from_the_beginning_of_the_look_up(
    lease: Lease, clock: _Clock
) -> None:
    look_up = lease.begin_look_up()
    clock.seconds += 3
    lease.extend(clock())
    lease.keep("key", _ROWS, look_up, "server", 2.0)
    assert lease.find("key") is None


def test_a_change_drops_everything_and_the_lease_goes_on(lease: Lease) -> None:
    lease.drop()
    assert lease.find("key") is None
    _keep(lease)
    assert lease.find("key") == _ROWS


def test_rows_that_were_looked_up_before_a_change_are_not_kept(lease: Lease) -> None:
    look_up = lease.begin_look_up()
    lease.drop()
    lease.keep("key", _ROWS, look_up, "server")
    assert lease.find("key") is None


def test_rows_that_were_looked_up_before_the_connection_listened_are_not_kept(
    lease: Lease, clock: _Clock
) -> None:
    look_up = lease.begin_look_up()
    lease.lose()
    lease.begin("server")
    lease.extend(clock())
    lease.keep("key", _ROWS, look_up, "server")
    assert lease.find("key") is None


def test_rows_of_a_server_that_is_not_listened_to_are_not_kept(lease: Lease) -> None:
    lease.keep("other", _ROWS, lease.begin_look_up(), "the old primary")
    assert lease.find("other") is None


def test_a_lease_that_is_lost_ends_at_once(lease: Lease, clock: _Clock) -> None:
    assert lease.lose()
    assert not lease.holds
    assert lease.find("key") is None
    lease.begin("server")
    assert not lease.holds
    lease.extend(clock())
    assert lease.find("key") is None


def test_a_lease_is_lost_once(lease: Lease) -> None:
    assert lease.lose()
    assert not lease.lose()


def test_rows_that_are_dropped_while_they_are_found_are_not_covered_by_a_later_extension() -> None:
    """The lease has run out when the rows are found. Then a change arrives, and the lease is extended."""
    lease = Lease(1.0, lambda: 0.0)
    lease.begin("server")
    lease.extend(-5.0)
    lease.keep("key", _ROWS, lease.begin_look_up(), "server")

    def clock() -> float:
        lease.drop()
        lease.extend(0.0)
        return 0.0

    lease.now = clock
    assert lease.find("key") is None
    assert lease.find("key") is None


def test_the_number_of_kept_rows_is_bounded(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "MOST_KEPT", 3)
    for number in range(10):
        lease.keep(number, _ROWS, lease.begin_look_up(), "server")
    assert sum(lease.find(number) is not None for number in range(10)) in (1, 2, 3)


def test_the_clock_never_goes_back() -> None:
    first = lease_module.read_clock()
    assert lease_module.read_clock() >= first


def test_who_revokes_waits_longer_than_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    lease_module.wait_out_lease(1.0)
    assert slept[0] > 1.0

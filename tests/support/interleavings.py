"""Tries every order in which the steps of several sessions can happen on the real database.

The idea is that of PostgreSQL's isolation tester. An act is a session with consecutive steps. A step is a
function of the session, or COMMIT or ROLLBACK. `explore` runs the acts in every order, each time with a new
script:

    def script() -> Script:
        order = stage_and_begin()
        run = yield {
            "worker": [("run", lambda session: run_attempt(..., order)), COMMIT],
            "request": [("withdraw", lambda session: withdraw_attempt(..., order)), COMMIT],
        }
        assert run.results["worker.run"] != run.results["request.withdraw"]

    assert explore(sessions, script) == 4

A step that waits for a lock is recognised by `pg_blocking_pids`. The other acts go on meanwhile, and it ends
when they release the lock. Orders in which a waiting session would have to act are left out. If two acts end
directly after each other while nobody waits, nobody can tell which ended first: one of both orders is tried.
Of acts that are alike, the first one begins first: to exchange them would be the same order again.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.orm import Session, sessionmaker

#: Seconds for one step. A step that takes longer, and does not wait for a lock of another act, is a mistake.
_STEP_TIMEOUT = 30.0
#: Seconds that a step has before the database is asked whether it waits for a lock.
_PAUSE = 0.005

Step = tuple[str, Callable[[Session], Any]]

COMMIT: Step = ("commit", lambda session: session.commit())
ROLLBACK: Step = ("rollback", lambda session: session.rollback())


@dataclass(slots=True)
class Run:
    """One order of the steps, and its results."""

    #: The steps in the order in which they were begun, as `act.step`.
    order: list[str] = field(default_factory=list)
    #: What each step returned, or the exception that it raised, after which its act was rolled back.
    results: dict[str, Any] = field(default_factory=dict)
    #: The steps that waited for a lock of another act.
    waited: set[str] = field(default_factory=set)

    @property
    def errors(self) -> dict[str, Exception]:
        """Return the steps that raised an exception."""
        return {name: it for name, it in self.results.items() if isinstance(it, Exception)}

    def before(self, one: str, other: str) -> bool:
        """Return whether the step `one` was begun before the step `other`."""
        return self.order.index(one) < self.order.index(other)


#: Yields the acts by their names, and checks the run that it gets.
Script = Generator[Mapping[str, Sequence[Step]], Run, None]


def explore(
    sessions: sessionmaker[Session],
    begin: Callable[[], Script],
    *,
    alike: Sequence[str] = (),
    may_raise: bool = False,
) -> int:
    """Try every order of the steps, each in a new script. Return how many there were.

    `alike`: the names of acts that differ in nothing but their names. No step may raise an exception, unless
    the script looks at them. Fail with the order in which an assertion failed.
    """
    prefix: list[int] | None = []
    orders = 0
    while prefix is not None:
        script = begin()
        run, choices = _perform(sessions, next(script), alike, prefix)
        orders += 1
        try:
            assert may_raise or not run.errors
            with suppress(StopIteration):
                script.send(run)
        except AssertionError as error:
            waited = f" ({', '.join(sorted(run.waited))} waited)" if run.waited else ""
            results = "\n".join(f"    {name}: {result!r}" for name, result in run.results.items())
            raise AssertionError(f"{' '.join(run.order)}{waited}\n{results}\n{error}") from error
        prefix = _next_prefix(choices)
    return orders


def _next_prefix(choices: Sequence[tuple[int, int]]) -> list[int] | None:
    """Return the beginning of the next order: the last choice that had another possibility takes it."""
    taken = list(choices)
    while taken:
        chosen, possible = taken.pop()
        if chosen + 1 < possible:
            return [choice for choice, _ in taken] + [chosen + 1]
    return None


def _perform(
    sessions: sessionmaker[Session],
    named: Mapping[str, Sequence[Step]],
    alike: Sequence[str],
    prefix: Sequence[int],
) -> tuple[Run, list[tuple[int, int]]]:
    """Run the acts in the order that begins with `prefix`. Return it, and (choice, possibilities) of each."""
    run = Run()
    choices: list[tuple[int, int]] = []
    ended = 0  # the place of the act that has just ended, if one has
    observing = sessions.kw["bind"].connect().execution_options(isolation_level="AUTOCOMMIT")
    with observing as observer, ThreadPoolExecutor(len(named)) as pool:
        acts = [_Act(name, steps, sessions, pool, run) for name, steps in named.items()]
        try:
            while any(act.is_left for act in acts):
                ready = [act for act in acts if act.is_left and act.pending is None]
                ready = _without_exchanges(ready, alike, run)
                if not ready:  # a deadlock: after a second the database ends one of the steps
                    wait([act.pending for act in acts if act.pending], _STEP_TIMEOUT, FIRST_COMPLETED)
                    _settle(acts, observer)
                    continue
                nobody_waits = all(act.pending is None for act in acts)
                possible = _without_repetitions(ready, acts[:ended]) if nobody_waits else ready
                choice = prefix[len(choices)] if len(choices) < len(prefix) else 0
                choices.append((choice, len(possible)))
                act = possible[choice]
                ended = acts.index(act) if nobody_waits and act.would_end else 0
                act.begin_step()
                _settle(acts, observer)
        finally:
            for act in acts:
                act.close()
    return run, choices


def _without_repetitions(acts: Sequence["_Act"], before: Sequence["_Act"]) -> Sequence["_Act"]:
    """Return the acts that may go on if nobody waits. Acts end directly after each other in their order only.

    `before` are those that come before the act that has just ended.
    """
    if all(act.would_end for act in acts):
        return acts[:1]
    return [act for act in acts if not (act.would_end and act in before)]


def _without_exchanges(acts: Sequence["_Act"], alike: Sequence[str], run: Run) -> list["_Act"]:
    """Return the acts that may go on. Acts that are alike begin in their order only."""
    begun = {step.partition(".")[0] for step in run.order}
    later = [name for name in alike if name not in begun][1:]
    return [act for act in acts if act.name not in later]


def _settle(acts: Sequence["_Act"], observer: Connection) -> None:
    """Return as soon as every step that was begun has ended or waits for a lock."""
    deadline = time.monotonic() + _STEP_TIMEOUT
    while running := [act for act in acts if not act.has_ended()]:
        # Most steps end in a few milliseconds. To ask the database all the time would only delay them.
        wait([act.pending for act in running if act.pending], _PAUSE, FIRST_COMPLETED)
        waiting = [act for act in running if act.waits(observer, acts)]
        # A lock that was just released lets a session continue. Only sessions that still wait after that are
        # waiting.
        if len(waiting) == len(running) and all(act.waits(observer, acts) for act in running):
            return
        assert time.monotonic() < deadline, f"{[act.name for act in running]} neither end nor wait"


class _Act:
    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        sessions: sessionmaker[Session],
        pool: ThreadPoolExecutor,
        run: Run,
    ) -> None:
        self.name = name
        self.pending: Future[Any] | None = None
        self._steps = list(steps)
        # One connection from beginning to end. Otherwise the session would return it to the pool at each
        # commit.
        self._connection = sessions.kw["bind"].connect()
        self._pid = self._connection.connection.driver_connection.info.backend_pid
        self._session = sessions(bind=self._connection)
        self._pool = pool
        self._run = run
        self._step = ""

    @property
    def is_left(self) -> bool:
        """Return True if there is a step to begin, or one that has not ended."""
        return bool(self._steps or self.pending)

    @property
    def would_end(self) -> bool:
        """Return True if the next step is the last one, and only ends the transaction."""
        return self._steps in ([COMMIT], [ROLLBACK])

    def begin_step(self) -> None:
        what, action = self._steps.pop(0)
        self._step = f"{self.name}.{what}"
        self._run.order.append(self._step)
        self.pending = self._pool.submit(action, self._session)

    def has_ended(self) -> bool:
        """Return True if no step is running. Take the result of one that has just ended."""
        if self.pending is None:
            return True
        if not self.pending.done():
            return False
        error = self.pending.exception()
        if isinstance(error, Exception):
            self._run.results[self._step] = error
            self._steps.clear()
            self._session.rollback()
        else:
            self._run.results[self._step] = self.pending.result()
        self.pending = None
        return True

    def waits(self, observer: Connection, acts: Sequence["_Act"]) -> bool:
        """Return True if the running step waits for a lock of an act, not for one of a vacuum, which ends."""
        if self.pending is None or self.pending.done():
            return False
        blocking = observer.scalar(
            text("SELECT pg_blocking_pids(:pid) && CAST(:pids AS int[])"),
            {"pid": self._pid, "pids": [act._pid for act in acts]},
        )
        if blocking and self.pending and not self.pending.done():
            self._run.waited.add(self._step)
            return True
        return False

    def close(self) -> None:
        if self.pending is not None:
            self.pending.exception(_STEP_TIMEOUT)
        self._session.close()
        self._connection.close()

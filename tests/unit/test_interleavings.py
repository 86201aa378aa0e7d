"""The runner finds every order, notices waiting sessions, and detects a missing lock."""

from uuid import uuid4

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Organisation
from support.interleavings import COMMIT, ROLLBACK, Run, Scenario, Script, Step, explore, explore_script


def _make(sessions: sessionmaker[Session]) -> int:
    with sessions.begin() as session:
        organisation = Organisation(name=f"{uuid4()}-")  # a UUID may end with a or b, too
        session.add(organisation)
        session.flush()
        return organisation.id


def _append(key: int, letter: str, *, lock: bool) -> list[Step]:
    """Read the name, and write it back with another letter: a lost update unless the row is locked."""
    read: list[str] = []

    def look(session: Session) -> None:
        statement = select(Organisation.name).where(Organisation.id == key)
        read.append(session.scalars(statement.with_for_update() if lock else statement).one())

    def write(session: Session) -> None:
        values = {"id": key, "name": read[0] + letter}
        session.execute(text("UPDATE organisation SET name = :name WHERE id = :id"), values)

    return [("look", look), ("write", write), COMMIT]


def _lost_updates(sessions: sessionmaker[Session], *, lock: bool) -> int:
    def script() -> Script:
        key = _make(sessions)
        yield {it: _append(key, it, lock=lock) for it in "ab"}
        with sessions() as session:
            name = session.get_one(Organisation, key).name
        assert sorted(name[-2:]) == ["a", "b"]

    return explore_script(sessions, script)


def test_a_lost_update_is_found_and_its_order_is_reported(sessions: sessionmaker[Session]) -> None:
    with pytest.raises(AssertionError, match=r"a.look a.write b.look a.commit b.write"):
        _lost_updates(sessions, lock=False)


def test_orders_in_which_a_waiting_session_would_act_are_left_out(sessions: sessionmaker[Session]) -> None:
    assert _lost_updates(sessions, lock=True) == 6, "20 without locks"


def test_of_acts_that_are_alike_the_first_one_begins_first(sessions: sessionmaker[Session]) -> None:
    orders: list[Run] = []
    nothing: list[Step] = [("step", lambda session: None), ROLLBACK]
    acts = dict.fromkeys(("a", "b", "c"), nothing)
    assert explore(sessions, lambda: Scenario(acts, orders.append, alike=("a", "b"))) == 18, "half of 36"
    assert all(run.before("a.step", "b.step") for run in orders)
    assert {run.before("c.step", "a.step") for run in orders} == {True, False}

"""The tools of tests: orders of sessions, known mistakes, and the model of the drill."""

from dataclasses import replace
from uuid import uuid4

import pytest
from known_mistakes import KNOWN, ROOT, Known, apply
from sqlalchemy import select, text
from sqlalchemy.orm import Session, sessionmaker

from drill.history import Act, Event, Question, by_account
from drill.inject import BUGS
from drill.model import MODEL, AttemptRow, Tables
from migration_service.models import Organisation
from support.interleavings import COMMIT, ROLLBACK, Run, Script, Step, explore


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

    return explore(sessions, script)


def test_a_lost_update_is_found_and_its_order_is_reported(sessions: sessionmaker[Session]) -> None:
    with pytest.raises(AssertionError, match=r"a.look a.write b.look a.commit b.write"):
        _lost_updates(sessions, lock=False)


def test_orders_in_which_a_waiting_session_would_act_are_left_out(sessions: sessionmaker[Session]) -> None:
    assert _lost_updates(sessions, lock=True) == 6, "20 without locks"


def test_of_acts_that_are_alike_the_first_one_begins_first(sessions: sessionmaker[Session]) -> None:
    orders: list[Run] = []
    nothing: list[Step] = [("step", lambda session: None), ROLLBACK]

    def script() -> Script:
        orders.append((yield dict.fromkeys(("a", "b", "c"), nothing)))

    assert explore(sessions, script, alike=("a", "b")) == 18, "half of 36"
    assert all(run.before("a.step", "b.step") for run in orders)
    assert {run.before("c.step", "a.step") for run in orders} == {True, False}


@pytest.mark.parametrize("known", KNOWN.values(), ids=list(KNOWN))
def test_a_known_mistake_can_still_be_made_and_its_tests_exist(known: Known) -> None:
    source = (ROOT / "src/migration_service" / known.file).read_text()
    assert apply(source, known) != source
    file, _, test = known.tests.partition("::")
    path = ROOT / "tests" / file
    assert path.exists()
    test, _, page = test.removesuffix("]").partition("[")
    assert not test or f"def {test}(" in path.read_text()
    assert not page or (path.parent / f"{page}.md").exists()


STAGED = Event(
    question=Question(act=Act.STAGE, number="1", version="Singel 1"),
    request_id="r1",
    api_key="ami_a_secret",
    invoked=1.0,
    ended=2.0,
    status=201,
)
PROCESSED = replace(
    STAGED,
    question=Question(act=Act.PROCESS, number="1", team="North"),
    request_id="r2",
    invoked=3.0,
    ended=4.0,
    told="A-1",
)
READ = replace(
    STAGED,
    question=Question(act=Act.STATUS, number="1"),
    request_id="r3",
    invoked=5.0,
    ended=6.0,
    status=200,
    said="COMPLETED",
    told="A-1",
)
ATTEMPT = AttemptRow("1", "r2", "North", "ami_a", dry_run=False, outcome="SUCCEEDED")
TABLES = Tables([ATTEMPT], {"1": "Singel 1"}, {"1": "North"})

UNDONE = replace(
    STAGED,
    question=Question(act=Act.UNDO, number="1"),
    request_id="",
    invoked=7.0,
    ended=8.0,
    status=200,
    said="REVERTED",
)
READ_LATER = replace(READ, request_id="r5", invoked=9.0, ended=9.5, said="UNKNOWN", told="")
AGAIN = replace(PROCESSED, request_id="r6", invoked=10.0, ended=11.0, told="A-2")

WITHDRAWN = replace(PROCESSED, status=429, told="")
RESTAGED = replace(STAGED, invoked=2.2, ended=2.4, question=replace(STAGED.question, version="Rokin 2"))

#: A history that breaks each promise: the events, and the tables.
BROKEN: dict[str, list[tuple[list[Event], Tables]]] = {
    "one account, one number": [([STAGED, PROCESSED, replace(READ, told="A-2")], TABLES)],
    "what was undone is gone": [([STAGED, PROCESSED, UNDONE, replace(READ_LATER, told="A-1")], TABLES)],
    "a number is never given out again after an undo": [
        ([STAGED, PROCESSED, UNDONE, replace(AGAIN, told="A-1")], TABLES)
    ],
    "created stays created, whoever asks": [
        ([STAGED, PROCESSED, replace(READ, said="UNKNOWN", told="")], TABLES)
    ],
    "staged stays staged": [
        ([STAGED, replace(READ, status=404, said="", told="")], Tables()),
        ([STAGED, replace(PROCESSED, status=400, said="account_not_staged", told="")], Tables()),
    ],
    "what was refused is not created": [([STAGED, WITHDRAWN], TABLES)],
    "the payload that was accepted last": [([STAGED, RESTAGED, PROCESSED], TABLES)],
    "attempts have the id, team and key of their requests": [
        ([STAGED, PROCESSED], replace(TABLES, attempts=[replace(ATTEMPT, request_id=None)])),
        ([STAGED, PROCESSED], replace(TABLES, attempts=[replace(ATTEMPT, team="South")])),
        ([STAGED, PROCESSED], replace(TABLES, attempts=[replace(ATTEMPT, key_prefix="ami_b")])),
    ],
    "accounts belong to the team that was named": [
        ([STAGED, PROCESSED], replace(TABLES, teams={"1": "South"}))
    ],
    "accepted requests have one attempt with an outcome": [
        ([STAGED, PROCESSED], replace(TABLES, attempts=[])),
        ([STAGED, PROCESSED], replace(TABLES, attempts=[ATTEMPT, ATTEMPT])),
        ([STAGED, PROCESSED], replace(TABLES, attempts=[replace(ATTEMPT, outcome="FAILED")])),
        (
            [STAGED, replace(PROCESSED, status=202, told="")],
            replace(TABLES, attempts=[replace(ATTEMPT, outcome=None)]),
        ),
    ],
}


def test_every_promise_has_a_history_that_breaks_it() -> None:
    assert list(BROKEN) == list(MODEL)


@pytest.mark.parametrize(
    ("promise", "case"), [(promise, case) for promise, cases in BROKEN.items() for case in range(len(cases))]
)
def test_a_history_that_breaks_a_promise_is_found(promise: str, case: int) -> None:
    events, tables = BROKEN[promise][case]
    assert list(MODEL[promise](by_account(events), tables))


@pytest.mark.parametrize("name", BUGS)
def test_every_injected_bug_still_fits_the_service(name: str, pytestconfig: pytest.Config) -> None:
    for file, old, new in BUGS[name].changes:
        text = (pytestconfig.rootpath / "src/migration_service" / file).read_text()
        assert text.count(old) == 1, f"{file}: adapt tests/drill/injected_bugs.toml"
        assert old != new

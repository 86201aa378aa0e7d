"""Each promise of the drill's model finds a history that breaks it, and finds nothing in valid ones."""

from dataclasses import replace

import pytest

from drill.history import Act, Event, History, Question
from drill.injected_bugs import BUGS
from drill.model import MODEL, AttemptRow, Tables

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
BOTH = [ATTEMPT, replace(ATTEMPT, request_id="r6")]

WITHDRAWN = replace(PROCESSED, status=429, told="")
DRY_RUN = replace(PROCESSED, status=400, told="", question=replace(PROCESSED.question, dry_run=True))
RESTAGED = replace(STAGED, invoked=2.2, ended=2.4, question=replace(STAGED.question, version="Rokin 2"))

#: A history that breaks each promise: the events, and the tables.
BROKEN: dict[str, list[tuple[list[Event], Tables]]] = {
    "one account, one number": [([STAGED, PROCESSED, replace(READ, told="A-2")], TABLES)],
    "what was undone is gone": [
        ([STAGED, PROCESSED, UNDONE, replace(READ_LATER, told="A-1")], TABLES),
        ([STAGED, PROCESSED, UNDONE, replace(READ_LATER, said="COMPLETED", told="A-1")], TABLES),
        ([STAGED, PROCESSED, UNDONE, replace(READ_LATER, said="IN_PROGRESS")], TABLES),
    ],
    "a number is never given out again after an undo": [
        ([STAGED, PROCESSED, UNDONE, replace(AGAIN, told="A-1")], TABLES),
        (
            [
                *(STAGED, PROCESSED, UNDONE, AGAIN),
                replace(AGAIN, told="A-1", question=replace(AGAIN.question, number="2")),
            ],
            TABLES,
        ),
    ],
    "created stays created, whoever asks": [
        ([STAGED, PROCESSED, replace(READ, said="UNKNOWN", told="")], TABLES),
        ([STAGED, PROCESSED, replace(READ, said="IN_PROGRESS", told="")], TABLES),
        ([STAGED, PROCESSED, replace(READ, told="")], TABLES),
    ],
    "staged stays staged": [
        ([STAGED, replace(READ, status=404, said="", told="")], Tables()),
        ([STAGED, replace(PROCESSED, status=400, said="account_not_staged", told="")], Tables()),
    ],
    "what was refused is not created": [
        ([STAGED, WITHDRAWN], TABLES),
        ([STAGED, DRY_RUN], TABLES),
        ([STAGED], TABLES),
        ([STAGED, PROCESSED, UNDONE], TABLES),
        ([STAGED, PROCESSED, UNDONE, replace(WITHDRAWN, invoked=10.0)], TABLES),
    ],
    "the payload that was accepted last": [
        ([STAGED, RESTAGED, PROCESSED], TABLES),
        ([STAGED, PROCESSED, replace(RESTAGED, invoked=8.0, ended=9.0, status=200)], TABLES),
    ],
    "attempts have the id, team and key of their requests": [
        ([STAGED, PROCESSED], replace(TABLES, attempts=[replace(ATTEMPT, request_id=None)])),
        ([STAGED, PROCESSED], replace(TABLES, attempts=[replace(ATTEMPT, team="South")])),
        ([STAGED, PROCESSED], replace(TABLES, attempts=[replace(ATTEMPT, key_prefix="ami_b")])),
        ([STAGED, PROCESSED], replace(TABLES, attempts=[replace(ATTEMPT, key_prefix=None)])),
        ([STAGED, PROCESSED], replace(TABLES, attempts=[replace(ATTEMPT, dry_run=True)])),
    ],
    "accounts belong to the team that was named": [
        ([STAGED, PROCESSED], replace(TABLES, teams={"1": "South"})),
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

#: Histories that look like a loss to a client, but are not.
SOUND: dict[str, tuple[list[Event], Tables]] = {
    "everything": ([STAGED, PROCESSED, READ], TABLES),
    "a status from before the account": (
        [STAGED, replace(READ, invoked=2.5, said="UNKNOWN", told=""), PROCESSED],
        TABLES,
    ),
    "a request without an answer may have created it": (
        [STAGED, replace(PROCESSED, status=None, told=""), replace(WITHDRAWN, request_id="r4")],
        TABLES,
    ),
    "so may one that was answered 503": ([STAGED, replace(PROCESSED, status=503, told="")], TABLES),
    "a staging without an answer may have come last": (
        [replace(STAGED, status=None), RESTAGED, PROCESSED],
        TABLES,
    ),
    "a refusal tells the number of what another request created": (
        [STAGED, replace(PROCESSED, status=None, told=""), replace(PROCESSED, request_id="r4", status=400)],
        TABLES,
    ),
    "undone and created again": (
        [
            STAGED,
            PROCESSED,
            READ,
            UNDONE,
            READ_LATER,
            AGAIN,
            replace(READ, invoked=12.0, ended=13.0, told="A-2"),
        ],
        replace(TABLES, attempts=BOTH),
    ),
    "undone and not created again": (
        [STAGED, PROCESSED, UNDONE, READ_LATER],
        Tables([ATTEMPT]),
    ),
    "an undo that kept the account": (
        [STAGED, PROCESSED, replace(UNDONE, status=400, said="KEPT"), replace(READ, invoked=9.0)],
        TABLES,
    ),
    "an undo of which nobody knows the end": (
        [STAGED, PROCESSED, replace(UNDONE, status=None, said=""), AGAIN],
        replace(TABLES, attempts=BOTH),
    ),
    "withdrawn and never created": (
        [STAGED, WITHDRAWN],
        Tables([replace(ATTEMPT, outcome="WITHDRAWN")]),
    ),
}


def losses(events: list[Event], tables: Tables) -> dict[str, list[str]]:
    history = History()
    for event in events:
        history.add(event)
    found = {promise: list(check(history.by_account(), tables)) for promise, check in MODEL.items()}
    return {promise: lost for promise, lost in found.items() if lost}


def test_every_promise_has_a_history_that_breaks_it() -> None:
    assert list(BROKEN) == list(MODEL)


@pytest.mark.parametrize(
    ("promise", "case"),
    [(promise, case) for promise, cases in BROKEN.items() for case in range(len(cases))],
)
def test_a_history_that_breaks_a_promise_is_found(promise: str, case: int) -> None:
    assert promise in losses(*BROKEN[promise][case])


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_history_breaks_none(name: str) -> None:
    assert losses(*SOUND[name]) == {}


@pytest.mark.parametrize("name", BUGS)
def test_every_injected_bug_still_fits_the_service(name: str, pytestconfig: pytest.Config) -> None:
    for file, old, new in BUGS[name].changes:
        text = (pytestconfig.rootpath / "src/migration_service" / file).read_text()
        assert text.count(old) == 1, f"{file}: adapt tests/drill/injected_bugs.py"
        assert old != new

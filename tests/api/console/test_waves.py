"""Waves in the console: planned after their sizes were shown, carried on, decided, and in the audit."""

import re
from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.waves.sweep import advance_plans
from migration_service.states import WaveState
from support.audit import audited
from support.console_client import ConsoleClient, text_of
from support.undo_client import UndoClient
from support.wave_client import DAY, EVENING, NIGHT, WaveClient

_SEEN = re.compile(r'name="seen" value="([0-9a-f]{64})"')


def _fields(waves: WaveClient, *rows: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    fields = {"name": "Spring", "team": waves.supplier.team, **more}
    for index, (name, takes, which) in enumerate(rows):
        at = f"waves-{index}"
        fields |= {f"{at}-name": name, f"{at}-takes": takes, f"{at}-which": which}
    return fields


def _plan(client: ConsoleClient, waves: WaveClient, *rows: tuple[str, str, str], **more: Any) -> str:
    """Make a plan as a person does: have its effects shown, and then make it. Return its path."""
    path = f"/suppliers/{waves.supplier.code}/waves/new/"
    fields = client.tokens(path) | _fields(waves, *rows, **more)
    preview = client.post(path, fields)
    assert preview.status_code == 200, preview.text
    (seen,) = _SEEN.findall(preview.text)
    made = client.post(path, {**fields, "seen": seen})
    assert made.status_code == 303, made.text
    return str(made.location).removeprefix("/console")


def test_a_plan_is_made_only_after_its_effects_were_shown(
    administrator: ConsoleClient, waves: WaveClient, sessions: sessionmaker[Session]
) -> None:
    numbers = waves.stage(7)
    path = f"/suppliers/{waves.supplier.code}/waves/new/"
    blank = administrator.see(path)
    assert "7 accounts are pending" in blank
    assert "Make this plan" not in blank
    rows = (("Pilot", "sample", "2"), ("", "accounts", f"{numbers[0]}\r\n{numbers[1]}\r\n"), ("", "rest", ""))
    fields = administrator.tokens(path) | _fields(waves, *rows)

    preview = administrator.post(path, fields | {"seen": "0" * 64})
    assert preview.status_code == 200
    for begins in ("2 accounts, started by hand", "2 accounts, after the previous wave", "3 accounts, after"):
        assert preview.text.count(begins) == 1
    assert waves.supplier.get("/wave-plans/").json == []

    seen = {"seen": _SEEN.findall(preview.text)[0]}
    # One account more is pending now: the plan would do something else than was shown.
    assert waves.supplier.stage(waves.supplier.accounts(8)[7]).status_code == 201
    again = administrator.post(path, fields | seen)
    assert "4 accounts, after the previous wave" in again.text
    seen = {"seen": _SEEN.findall(again.text)[0]}
    made, twice = administrator.post(path, fields | seen), administrator.post(path, fields | seen)
    assert made.status_code == twice.status_code == 303
    assert made.location == twice.location

    page = administrator.see(made.location.removeprefix("/console"))
    for text in ("Spring", "Pilot", "Wave 1 waits (for somebody to start it)", "a person decides"):
        assert text in page
    (plan,) = waves.supplier.get("/wave-plans/").json  # type: ignore[misc]
    assert [wave["lines"] for wave in plan["waves"]] == [2, 2, 4]
    (entry,) = audited(sessions, action="wave_plan.created", subject=plan["plan_id"])
    assert entry.actor_kind == "operator"


_HOW_MANY = "How many, or the account numbers"


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        ([], {}, ("waves-0-takes", "Wave 1, Takes", "empty")),
        ([("", "size", "many")], {}, ("waves-0-which", f"Wave 1, {_HOW_MANY}", "not a whole number")),
        (
            [("", "accounts", "nobody")],
            {},
            ("waves-0-which", f"Wave 1, {_HOW_MANY}", "'nobody' is not pending"),
        ),
        (
            [("", "rest", "")],
            {"start": "22:00", "end": "06:00", "time_zone": "Mars"},
            ("time_zone", "Time zone of the window", "IANA"),
        ),
        (
            [("", "size", "1"), ("", "", ""), ("", "rest", "")],
            {"waves-2-end": "06:00"},
            ("waves-2-start", "Wave 3, The window opens at", "required"),
        ),
        (
            [("", "size", "1"), ("", "rest", "")],
            {"waves-1-stop_after_errors": "lots", "stop_after_errors": "2%"},
            ("waves-1-stop_after_errors", "Wave 2, Pause a wave after", "off"),
        ),
    ],
)
def test_what_does_not_fit_is_said_at_its_field_and_at_the_top(
    administrator: ConsoleClient,
    waves: WaveClient,
    rows: list[tuple[str, str, str]],
    more: dict[str, str],
    said: tuple[str, str, str],
) -> None:
    waves.stage(3)
    field, label, sentence = said
    path = f"/suppliers/{waves.supplier.code}/waves/new/"
    answer = administrator.post(path, administrator.tokens(path) | _fields(waves, *rows, **more))
    assert answer.status_code == 400
    (top,) = re.findall('<li><a class="alert-link" href="#(.*?)">(.*?)</a>: (.*?)</li>', answer.text)
    assert (top[0], top[1][: len(label)]) == (field, label)
    assert sentence in text_of(top[2])
    (wrong,) = re.findall(r'<(?:input|select|textarea)[^>]*aria-invalid="true"[^>]*>', answer.text)
    assert f'id="{field}"' in wrong
    assert " autofocus" in wrong
    assert f'aria-describedby="{field}-help"' in wrong
    (beside,) = re.findall(f'<div id="{field}-help">(.*?)</div></div>', answer.text, re.DOTALL)
    assert sentence in text_of(beside)
    assert 'name="seen"' not in answer.text
    assert waves.supplier.get("/wave-plans/").json == []


def test_the_fields_of_a_plan_have_bounds(administrator: ConsoleClient, waves: WaveClient) -> None:
    waves.stage(1)
    path = f"/suppliers/{waves.supplier.code}/waves/new/"
    tokens, most = administrator.tokens(path), 2**31 - 1
    for field, good, bad in (
        ("waves-0-name", "n" * 200, "n" * 201),
        ("lines_per_minute", str(most), str(most + 1)),
        ("seed", "0", "-1"),
    ):
        for value, status in ((good, 200), (bad, 400)):
            fields = tokens | _fields(waves, ("", "rest", "")) | {field: value}
            assert administrator.post(path, fields).status_code == status, (field, value[:20])


def test_a_window_is_shown_with_its_zone_and_the_next_time_it_opens(
    administrator: ConsoleClient, waves: WaveClient
) -> None:
    waves.stage(3)
    plan = _plan(
        administrator,
        waves,
        ("", "rest", ""),
        start="22:00",
        end="06:00",
        time_zone="Europe/Amsterdam",
        first_day="2026-03-07",
        days=["sat", "sun"],
        stop_after_errors="5%",
        lines_per_minute="600",
    )
    page = administrator.see(f"{plan}1/")
    assert "22:00 to 06:00 Europe/Amsterdam, from 7 Mar 2026: Saturday, Sunday" in page
    assert "2026-03-07 21:00:00 UTC" in page
    for text in ("for its window", "more than 5% of the lines failed, from 10 lines on", "at most 600"):
        assert text in page
    listed = administrator.see("/waves/")
    windows = listed[listed.index("Windows to come") : listed.index(">Plans<")]
    assert "2026-03-07 21:00:00 UTC" in windows
    assert f"/console{plan}1/" in windows
    assert "1 plan is not finished, none waits for somebody." in listed
    administrator.client.set_cookie("console_zone", "Europe/Lisbon", path="/console")
    shown = administrator.form(f"{plan}1/start/")
    said = "The window of the wave is closed. The wave starts by itself when it opens."
    assert (shown.sentence, shown.button) == (said, None)
    assert shown.facts["The window opens"] == "7 Mar 2026 21:00 Europe/Lisbon"


def test_a_paused_wave_is_named_as_such_and_says_when_it_goes_on(
    administrator: ConsoleClient, waves: WaveClient
) -> None:
    waves.stage(2)
    plan = waves.plan({"size": 1, "window": NIGHT}, {"rest": True})
    path = f"/waves/{plan['plan_id']}/1/"
    with waves.clock():
        waves.now = EVENING
        waves.sweep()
        assert waves.act(plan, 1, "pause").status_code == 200
        page = administrator.see("/")
        name = f"Wave 1 of {waves.supplier.code} is paused until it is resumed, with 1 account left."
        assert f'<a href="/console{path}">{name}</a>' in page
        assert "is PAUSED" not in page
        assert "1 plan is not finished, 1 waits for somebody." in administrator.see("/waves/")
        resumes = "The import of 1 remaining account continues"
        assert administrator.form(f"{path}resume/").sentence == f"{resumes} now."
        waves.now = EVENING + DAY / 2
        shown = administrator.form(f"{path}resume/")
        assert shown.sentence == f"{resumes} when the window of the wave opens."
        assert shown.facts["The window opens"].startswith("3 Mar 2026")
        administrator.act(f"{path}resume/")
        assert name not in administrator.see("/")


def test_an_undo_of_a_wave_is_shown_where_it_holds_the_plan(
    administrator: ConsoleClient, waves: WaveClient, sessions: sessionmaker[Session]
) -> None:
    waves.stage(3)
    plan = _plan(administrator, waves, ("", "size", "2"), ("", "rest", ""))
    first = f"{plan}1/"
    administrator.send(f"{first}start/")
    waves.run()
    (form,) = re.findall(r'href="/console(/batches/[^"]+/undo/)"', administrator.see(first))
    undo = administrator.send(form, {"reason": "The mapping was wrong."}).location.removeprefix("/console")
    for page in (plan, first):
        assert f"/console{undo}" in administrator.see(page)
        assert "No wave starts until it has ended." in administrator.see(page)
    UndoClient(waves.supplier).work(undo.split("/")[-2])
    assert "0 of 2 accounts exist, 2 are undone, 0 failed" in administrator.see(first)
    assert re.search(r"btn-primary[^>]*>Approve", administrator.see(first)) is None
    supplier = f"/suppliers/{waves.supplier.code}/"
    advance_plans(sessions)
    for path in (first, supplier):
        assert "No created account was found to differ" not in administrator.see(path)
    waves.run()
    assert "2 are open. Compared" in administrator.see(supplier)
    waves.batches.post(None, source="pending")
    waves.run()
    assert "2 of 2 accounts done" in administrator.see(first)


def test_the_undone_accounts_of_a_wave_are_imported_again_from_its_page(
    administrator: ConsoleClient, waves: WaveClient, undos: UndoClient
) -> None:
    first, _second = waves.stage(2)
    plan = waves.plan({"rest": True})
    waves.act(plan, 1, "start")
    waves.run()
    undos.run(first)
    waves.run()
    page = f"/waves/{plan['plan_id']}/1/"
    assert "Import 1 undone account again" in administrator.see(page)
    administrator.act(f"/batches/{waves.batch_id(plan, 1)}/repeat/import/", {"team": waves.supplier.team})
    waves.batches.work()
    administrator.act(f"{page}reconcile/")
    waves.run()
    assert waves.states(plan) == [WaveState.CLEAN]
    assert "undone account" not in administrator.see(page)

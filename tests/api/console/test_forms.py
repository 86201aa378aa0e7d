"""Each form says how many things it touches, and does what it says."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch, ImportSupplier
from migration_service.services.access.api_keys import KeyLimits, issue_api_key, revoke_api_key
from migration_service.services.setup.teams import create_operations_team
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, facts_of, text_of
from support.messages import Message, noted_messages
from support.rows import make_batch, make_supplier
from support.wave_client import WaveClient


def test_the_forms_of_a_batch(administrator: ConsoleClient, batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(1), name="week 12")
    back = f"/batches/{batch_id}/"
    for action, sentence, state in (
        ("pause", "1 remaining line will wait until the batch is resumed.", "PAUSED"),
        ("resume", "1 remaining line will be processed.", "RUNNING"),
        (
            "cancel",
            "1 line will never be processed. Finished lines are kept. This is permanent.",
            "CANCELLED",
        ),
    ):
        shown = administrator.form(f"{back}{action}/")
        assert (shown.sentence, shown.back, shown.is_dangerous) == (sentence, back, action == "cancel")
        assert shown.title.endswith(": week 12")
        location, _said = administrator.act(f"{back}{action}/")
        assert (location, batches.get(batch_id)["state"]) == (back, state)


def test_the_forms_of_a_supplier(administrator: ConsoleClient, batches: BatchClient) -> None:
    code = batches.supplier.code
    batches.start(batches.supplier.accounts(1))
    back = f"/suppliers/{code}/"
    status = administrator.form(f"{back}status/")
    assert status.sentence == "It is Ongoing now, and has 1 batch that has not ended."
    assert [*status.facts] == ["Ongoing", "Paused", "Complete"]
    done = administrator.act(f"{back}status/", {"status": "Paused"})
    assert done == (back, f"Supplier {code} is Paused.")
    assert "It is Paused now" in administrator.see(f"{back}status/")
    on = {"on": "y", "at": "at_moment", "moment": "2027-03-01T06:00"}
    off = {"at": "at_creation", "moment": ""}
    for fields, before, after in ((on, "no e-mail", "an e-mail"), (off, "an e-mail", "no e-mail")):
        path = f"{back}emails/"
        assert administrator.form(path).sentence == f"Customers get {before} about their account."
        shown = administrator.send(path, fields)
        assert "Held e-mails" in shown.text
        done = administrator.act(path, fields | {"seen": _SEEN.findall(shown.text)[0]})
        assert done == (back, f"Customers of {code} get {after} from now on.")
    assert administrator.send(path, {"at": "at_moment"}).status_code == 400
    path = f"{back}time-zone/"
    assert administrator.form(path).sentence.startswith("It is UTC now.")
    assert administrator.act(path, {"time_zone": "Europe/Lisbon"})[0] == back
    assert "Europe/Lisbon" in administrator.see(back)
    refused = administrator.send(path, {"time_zone": "Europe/Nowhere"})
    assert refused.status_code == 400
    assert "is not a time zone" in refused.text


def test_suppliers_and_teams_are_renamed_and_removed_while_nothing_refers_to_them(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    used, empty = batches.supplier.code, f"{batches.supplier.code}_EMPTY"
    batch_id = batches.start(batches.supplier.accounts(1))
    organisation = {"organisation": batches.supplier.organisation}
    administrator.send("/suppliers/new/", organisation | {"code": f"{empty}?", "profile": "lenient"})
    with sessions.begin() as session:
        team_of = select(Batch.operations_team_id).where(Batch.id == UUID(batch_id))
        team, new = session.scalar(team_of), create_operations_team(session, empty).id
    assert f"/suppliers/{used}/rename/" not in administrator.see(f"/suppliers/{used}/")

    def refuse(path: str, reason: str, **fields: str) -> None:
        refused = administrator.send(path, fields)
        assert refused.status_code == 400
        assert reason in unescape(text_of(refused.text))

    in_use = "is in use: accounts, batches or plans refer to it."
    refuse(f"/suppliers/{used}/rename/", in_use, name=empty)
    refuse(f"/suppliers/{used}/remove/", "set its status to Complete first")
    administrator.act(f"/suppliers/{used}/status/", {"status": "Complete"})
    refuse(f"/suppliers/{used}/remove/", in_use)
    refuse(f"/setup/teams/{team}/rename/", in_use, name=empty)
    refuse(f"/setup/teams/{team}/remove/", in_use)
    path = f"/suppliers/{empty}%3F/rename/"
    assert path in administrator.see(f"/suppliers/{empty}%3F/")
    assert f'value="{empty}?"' in administrator.see(path)
    refuse(path, "already exists", name=used)
    done = administrator.act(path, {"name": empty})
    assert done == (f"/suppliers/{empty}/", f"{empty}? is {empty} from now on.")
    administrator.act(f"/suppliers/{empty}/status/", {"status": "Complete"})
    with sessions.begin() as session:
        limited = KeyLimits(import_suppliers=[empty])
        key = issue_api_key(session, organisation_name=batches.supplier.organisation, limits=limited)
    refuse(f"/suppliers/{empty}/remove/", f"limited to it: the API key {key.rpartition('_')[0]}.")
    with sessions.begin() as session:
        revoke_api_key(session, key)
    assert administrator.act(f"/suppliers/{empty}/remove/") == ("/", f"{empty} is removed.")
    assert administrator.get(f"/suppliers/{empty}/").status_code == 404
    assert f"/setup/teams/{new}/remove/" in administrator.see("/setup/teams/")
    assert f'value="{empty}"' in administrator.see(f"/setup/teams/{new}/rename/")
    done = administrator.act(f"/setup/teams/{new}/rename/", {"name": f"{empty} 2"})
    assert done == ("/setup/teams/", f"{empty} is {empty} 2 from now on.")
    assert administrator.act(f"/setup/teams/{new}/remove/")[1] == f"{empty} 2 is removed."
    assert administrator.get(f"/setup/teams/{new}/remove/").status_code == 404


def test_the_forms_of_a_wave(administrator: ConsoleClient, waves: WaveClient) -> None:
    waves.stage(2)
    plan = waves.plan({"size": 1}, {"rest": True}, brake={"stop_after_errors": "5%"})
    first, second = (f"/waves/{plan['plan_id']}/{number}/" for number in (1, 2))

    def act(action: str, sentence: str, said: str, **fields: str) -> None:
        assert administrator.form(f"{first}{action}/").sentence == sentence
        assert administrator.act(f"{first}{action}/", fields) == (first, said)

    unknown = {"Created, and different from what was staged", "Open: neither created nor acknowledged"}
    facts = administrator.form(f"{first}reconcile/").facts
    assert {name for name, value in facts.items() if value == "not known yet"} == unknown
    with noted_messages() as messages:
        act("start", "The import of 1 account starts.", "The wave has started.")
    (begun,) = waves.supplier.get("/wave-plans/").get_json()
    assert messages == [("batches.run_chunk", (begun["waves"][0]["batch_id"], 1))]
    waits = "1 remaining account waits until the wave is resumed by hand, whatever its window."
    act("pause", waits, "The wave is paused.")
    goes_on = "The import of 1 remaining account continues now."
    act("resume", goes_on, "The wave is resumed.")
    waves.run()
    act("reconcile", "1 account is compared with what was staged.", "The wave is being reconciled.")
    waves.run()
    facts = administrator.form(f"{first}approve/").facts
    assert {facts[name] for name in unknown} == {"0"}
    too_long = administrator.send(f"{first}approve/", {"reason": "r" * 1001})
    assert "longer than 1000" in too_long.text
    following = "Wave 2 starts within a few seconds, with 1 account."
    act("approve", following, "The wave is approved.", reason="It is right.")
    last = "It is the last wave: the plan is finished."
    assert administrator.form(f"{second}approve/").sentence == last
    stop = administrator.form(f"{second}stop/")
    kept = "1 remaining account is not imported. Created accounts are kept. This is permanent."
    assert (stop.sentence, stop.is_dangerous) == (kept, True)
    assert administrator.act(f"{second}stop/", {"reason": "Enough."})[0] == second
    after = waves.get(plan)["waves"]
    assert after[1]["state"] == "STOPPED"
    for wave in after:
        batch = administrator.see(f"/batches/{wave['batch_id']}/")
        assert f"This batch is wave {wave['number']} of a plan." in batch


def test_the_form_of_control_totals(administrator: ConsoleClient, batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(2), "validate")
    back, path = f"/batches/{batch_id}/", f"/batches/{batch_id}/control-totals/"
    for given, done, shown in (
        ('{"accounts": 3}', "1 total differs.", "1 differs"),
        ('{"accounts": 3, "statements": 99}', "2 totals differ.", "2 differ"),
        ('{"accounts": 2}', "The file matches the control totals.", "as in the file"),
    ):
        location, said = administrator.act(path, {"totals": given})
        assert done in said
        assert location == back
        assert shown in administrator.see(back)
    assert administrator.form(path).facts["accounts"] == "2 given, 2 in the file"
    for bad, said in (('{"acounts": 2}', "did you mean accounts"), ("{", "not valid JSON"), ("", "required")):
        answer = administrator.send(path, {"totals": bad})
        assert said in answer.text
        assert answer.status_code == 400
    unreadable = f"/batches/{batches.start([b'{'], 'validate')}/"
    _, said = administrator.act(f"{unreadable}control-totals/", {"totals": '{"accounts": 1}'})
    assert "The part of the file that could be read matches the control totals." in said
    assert "as far as the file can be read" in administrator.see(unreadable)


def test_the_form_of_an_error_threshold(administrator: ConsoleClient, batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(1))
    back, path = f"/batches/{batch_id}/", f"/batches/{batch_id}/change_threshold/"
    given = {
        "stop_after_errors": " 5% ",
        "stop_min_lines": "300",
        "stop_window_lines": "400",
        "stop_ignore_codes": "required invalid_phone_number",
        "stop_count_warnings": "ledger_missing",
    }
    assert administrator.act(path, given) == (back, "The error threshold of the batch is set.")
    brake = batches.get(batch_id)["brake"]
    told = {name: brake[name] for name in given}
    assert told == {
        "stop_after_errors": "5%",
        "stop_min_lines": 300,
        "stop_window_lines": 400,
        "stop_ignore_codes": ["required", "invalid_phone_number"],
        "stop_count_warnings": ["ledger_missing"],
    }
    shown = text_of(administrator.see(back))
    assert "without those with only required, invalid_phone_number" in shown
    assert "with the warnings ledger_missing, too, now 0 of 0" in shown
    administrator.act(path, {"stop_after_errors": "100"})
    assert (
        administrator.form(path).sentence
        == "Now it is paused when 100 lines failed. 0 of 0 lines have failed."
    )
    administrator.act(path, {"stop_after_errors": "off"})
    assert administrator.form(path).sentence == "The batch has no error threshold now."


def test_fields_have_bounds(administrator: ConsoleClient, batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account])
    supplier = batches.supplier
    undo = f"/suppliers/{supplier.code}/accounts/{account['external_account_number']}/undo/"
    owned = {"organisation": supplier.organisation}
    csrf = administrator.tokens("/password/")["csrf_token"]
    for path, fields, name, bad, said in (
        ("/setup/teams/new/", owned, "name", "n" * 129, "longer than 128"),
        ("/suppliers/new/", {**owned, "profile": "strict"}, "code", "C" * 65, "longer than 64"),
        (
            "/suppliers/new/",
            {**owned, "profile": "strict", "code": "C"},
            "document_root",
            "s3://b/" + "f" * 1018,
            "longer than 1024",
        ),
        (undo, {}, "reason", "r" * 501, "longer than 500"),
    ):
        answer = administrator.post(path, {"csrf_token": csrf, **fields, name: bad})
        assert answer.status_code == 400, (path, name)
        assert said in answer.text, (path, name)


def test_workers_are_told_at_once_of_what_a_form_begins(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    good, faulty = batches.supplier.accounts(2)
    faulty["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    batch_id = str(batches.run([good, faulty])["batch_id"])
    supplier, batch = f"/suppliers/{batches.supplier.code}/", f"/batches/{batch_id}/"
    status, retry = f"{supplier}status/", f"{batch}retry/?everything=1"
    chunk, team = ("batches.run_chunk", (batch_id, 1)), batches.supplier.team
    with noted_messages() as messages:

        def told(path: str, **fields: str) -> list[Message]:
            messages.clear()
            administrator.act(path, fields)
            return list(messages)

        assert told(retry) == [chunk]
        batches.work()
        assert told(status, status="Paused") == []
        assert told(retry) == []
        assert told(status, status="Ongoing") == [chunk]
        batches.work()
        told(status, status="Paused")
        told(retry)
        told(f"{batch}pause/")
        assert told(status, status="Ongoing") == []
        assert told(f"{batch}resume/") == [chunk]
        batches.work()
        assert [task for task, _args in told(f"{batch}repeat/stage/", team=team)] == [chunk[0]]
        undo = f"{supplier}accounts/{good['external_account_number']}/undo/"
        assert [task for task, _args in told(undo, reason="Again.")] == ["undos.revert_accounts"]


_SEEN = re.compile(r'name="seen" value="([0-9a-f]{64})"')
_ENDS = "Accounts that can then never be undone"


@pytest.fixture
def code(batches: BatchClient) -> str:
    """A supplier with two accounts."""
    batches.run(batches.supplier.accounts(2))
    return batches.supplier.code


def _show(client: ConsoleClient, code: str, at: str) -> tuple[dict[str, str], dict[str, str]]:
    """Have the effects of a go-live shown. Return them, and the fields to send."""
    path = f"/suppliers/{code}/go-live/"
    fields = client.tokens(path) | {"at": at, "code": code}
    shown = client.post(path, fields)
    assert shown.status_code == 200, shown.text
    found = shown.text[shown.text.index('id="found"') :]
    return facts_of(found), fields | {"seen": _SEEN.findall(shown.text)[0]}


def _live_at(sessions: sessionmaker[Session], code: str) -> datetime | None:
    with sessions() as session:
        return session.scalars(select(ImportSupplier.live_at).where(ImportSupplier.code == code)).one()


def _do(client: ConsoleClient, code: str, fields: dict[str, str]) -> str:
    """Send the form twice, as somebody does who clicks twice. Return what the page of the supplier says."""
    path = f"/suppliers/{code}/go-live/"
    for _again in range(2):
        answer = client.post(path, fields)
        assert (answer.status_code, answer.location) == (303, f"/console/suppliers/{code}/"), answer.text
    return text_of(client.see(f"/suppliers/{code}/"))


def test_a_go_live_of_the_future_is_shown_set_and_changed(
    administrator: ConsoleClient, sessions: sessionmaker[Session], code: str
) -> None:
    administrator.client.set_cookie("console_zone", "Europe/Amsterdam", path="/console")
    assert f"/console/suppliers/{code}/go-live/" in administrator.see(f"/suppliers/{code}/")
    year = datetime.now(UTC).year + 1
    facts, fields = _show(administrator, code, f"{year}-03-01T06:00")
    when = f"1 Mar {year} 06:00 Europe/Amsterdam"
    assert facts == {"Goes live": when, "Until then": "another moment can be set", _ENDS: "2"}
    assert _live_at(sessions, code) is None
    said = _do(administrator, code, fields)
    assert f"{code} goes live: {when}." in said
    assert f"It goes live {when}: until then its accounts can be undone." in said
    assert _live_at(sessions, code) == datetime(year, 3, 1, 5, tzinfo=UTC)
    open_now = {"Created accounts that have not been compared: reconcile the supplier": "2"}
    sent = {"E-mails to customers that will be sent": "0"}
    assert administrator.form(f"/suppliers/{code}/go-live/").facts == {
        "Set at present": when,
        **sent,
        **open_now,
    }


def test_a_go_live_in_the_past_says_so_and_is_final(
    administrator: ConsoleClient, sessions: sessionmaker[Session], code: str
) -> None:
    past = datetime.now(UTC) - timedelta(days=2)
    administrator.client.set_cookie("console_zone", "UTC", path="/console")
    facts, fields = _show(administrator, code, f"{past:%Y-%m-%dT%H:%M}")
    assert list(facts) == ["Went live", "This is in the past", _ENDS]
    said = _do(administrator, code, fields)
    assert f"{code} went live:" in said
    assert "none of its accounts can be undone" in said
    assert _live_at(sessions, code) == past.replace(second=0, microsecond=0)
    assert "/go-live/" not in administrator.see(f"/suppliers/{code}/")
    over = administrator.form(f"/suppliers/{code}/go-live/")
    assert (over.sentence, over.button) == (
        f"{code} has gone live. None of its accounts can be undone.",
        None,
    )


def test_without_a_moment_it_is_at_once_if_the_code_confirms_what_was_shown(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session], code: str
) -> None:
    path = f"/suppliers/{code}/go-live/"
    facts, fields = _show(administrator, code, "")
    assert facts == {"Goes live": "at once", _ENDS: "2"}
    answer = administrator.post(path, fields | {"code": code.lower()})
    assert answer.status_code == 400
    assert "This is not the code of the supplier." in answer.text
    batches.run(batches.supplier.accounts(3))
    again = administrator.post(path, fields)
    assert again.status_code == 200
    assert "<dd>3</dd>" in again.text
    assert _live_at(sessions, code) is None
    _facts, fields = _show(administrator, code, "")
    assert f"{code} went live:" in _do(administrator, code, fields)
    assert _live_at(sessions, code) is not None


def test_the_team_of_the_last_batch_is_offered_first(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        owner = batches.supplier.organisation
        team = create_operations_team(session, "A team before all", organisation_name=owner)
    path = f"/suppliers/{batches.supplier.code}/upload/"

    def offered() -> list[str]:
        return re.findall(r'<option[^>]* value="([^"]*team[^"]*)"', administrator.see(path), re.IGNORECASE)

    assert offered()[0] == "A team before all"
    batches.start(batches.supplier.accounts(1))
    batches.start(batches.supplier.accounts(1), "validate")
    with sessions.begin() as session:
        beside = make_supplier(session, "BESIDE", batches.supplier.organisation_id())
        make_batch(session, beside, operations_team_id=team.id)
    assert offered()[0] == batches.supplier.team

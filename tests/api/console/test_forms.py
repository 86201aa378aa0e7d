"""Each form says how many things it touches, and does what it says."""

import re
from datetime import UTC, datetime

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import ImportSupplier
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, facts_of, text_of
from support.messages import Message, noted_messages
from support.wave_client import WaveClient


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


def test_workers_are_told_at_once_of_a_wave_that_starts(
    administrator: ConsoleClient, waves: WaveClient
) -> None:
    waves.stage(1)
    plan = waves.plan({"rest": True})
    with noted_messages() as messages:
        administrator.act(f"/waves/{plan['plan_id']}/1/start/")
    assert messages == [("batches.run_chunk", (waves.get(plan)["waves"][0]["batch_id"], 1))]


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

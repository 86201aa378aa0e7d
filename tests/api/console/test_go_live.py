"""Go-live in the console: what it ends is shown first, and the supplier's code confirms it."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import ImportSupplier
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, facts_of, text_of

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
    assert administrator.form(f"/suppliers/{code}/go-live/").facts == {"Set at present": when, **open_now}


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

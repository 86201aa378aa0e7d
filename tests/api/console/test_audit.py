"""The audit of some days in the console (what else is asked for: transcripts/console/audit.md)."""

import csv
import html
import re
from datetime import UTC, date, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import AuditEntry
from support.console_client import ConsoleClient

_EXPORT = re.compile(r'href="/console(/audit/export\.csv[^"]*)"')


@pytest.fixture
def day(sessions: sessionmaker[Session]) -> date:
    """The day of three entries, of which the last is about something that was refused."""
    refused = {"action": "permission.refused", "outcome": "REFUSED"}
    with sessions.begin() as session:
        for number, more in enumerate(({}, {}, refused)):
            values = {"action": "concurrency_limit.set", "outcome": "DONE", "request_id": f"request-{number}"}
            session.add(_entry(f"subject {number}", actor=f"actor {number}", **(values | more)))
            session.flush()
        return session.scalars(select(AuditEntry.at)).all()[-1].astimezone(UTC).date()


def _entry(subject: str, **values: str) -> AuditEntry:
    return AuditEntry(subject=subject, subject_kind="limit", actor_kind="operator", **values)


@pytest.mark.parametrize(
    ("query", "subjects"),
    [
        ("since={today}&until={today}&refused=1", [2]),
        ("since={today}&until={today}&actor=actor+1", [1]),
        ("since={tomorrow}&actor=actor+1", []),
        ("until={yesterday}&actor=actor+1", []),
    ],
)
def test_the_page_and_the_export_have_what_is_asked_for(
    administrator: ConsoleClient, day: date, query: str, subjects: list[int]
) -> None:
    names = {"yesterday": -1, "today": 0, "tomorrow": 1}
    days = {name: str(day + timedelta(days=it)) for name, it in names.items()}
    page = administrator.see(f"/audit/?{query.format(**days)}")
    assert [it for it in range(3) if f"subject {it}" in page] == subjects
    (export,) = map(html.unescape, _EXPORT.findall(page))
    answer = administrator.get(export)
    assert answer.mimetype == "text/csv"
    assert answer.headers["Content-Disposition"] == "attachment; filename=audit.csv"
    rows = csv.DictReader(answer.text.splitlines())
    assert sorted(it["subject"] for it in rows) == [f"subject {it}" for it in subjects]

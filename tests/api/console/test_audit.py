"""The audit in the console: what is asked for, shown and exported, and whom it names for what was ordered."""

import csv
import html
import re
from datetime import UTC, date, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import AuditEntry
from migration_service.services.access.api_keys import revoke_api_key
from migration_service.services.access.operators import OperatorRole
from migration_service.services.audit.entries import AuditAction
from migration_service.services.audit.trail import TrailFilter, stream_trail
from support.audit import audited
from support.batch_client import BatchClient, ndjson
from support.console_client import ConsoleClient, LogIn
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient

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
        ("since=nonsense&request_id=request-0", [0]),
        ("action=concurrency_limit.set", [0, 1]),
        ("actor=&action=permission.refused&request_id=&until=&refused=", [2]),
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


def test_a_page_has_fifty_entries_and_leads_to_the_next(
    administrator: ConsoleClient, sessions: sessionmaker[Session]
) -> None:
    values = {"action": "concurrency_limit.set", "outcome": "DONE"}
    for number in range(51):
        with sessions.begin() as session:
            session.add(_entry(f"number {number}.", **values))
    page = administrator.see("/audit/?action=concurrency_limit.set")
    assert [it for it in range(51) if f"number {it}." in page] == list(range(1, 51))
    for cursor in ("x", "2026-01-01|1", "2026-01-01T00:00:00Z|", "2026-01-01T00:00:00Z|%00"):
        assert administrator.get(f"/audit/?cursor={cursor}").status_code == 400, cursor
    (following,) = set(re.findall(r'href="/console(/audit/[^"]*cursor=[^"]*)"', page))
    rest = administrator.see(html.unescape(following))
    assert [it for it in range(51) if f"number {it}." in rest] == [0]


@pytest.mark.parametrize("query", ["until=9999-12-31", "since=9999-12-31", "since=0001-01-01&until=%00"])
def test_days_that_nothing_can_be_reckoned_from_are_no_filter(
    administrator: ConsoleClient, query: str
) -> None:
    assert administrator.get(f"/audit/?{query}").status_code == 200


def test_what_an_operator_does_belongs_to_the_one_organisation_of_theirs(
    log_in: LogIn, supplier: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    client = log_in(OperatorRole.ADMINISTER, supplier.organisation)
    free = log_in(OperatorRole.ADMINISTER)
    for it in (client, free):
        it.get("/audit/export.csv").get_data()
    found = audited(sessions, action=AuditAction.AUDIT_EXPORTED)
    assert [it.organisation_id for it in found] == [supplier.organisation_id(), None]
    assert [it.address for it in found] == [it.client.environ_base["REMOTE_ADDR"] for it in (client, free)]
    assert all(it.request_id and it.actor_kind == "operator" for it in found)


def _story(supplier: SupplierClient, number: str) -> list[tuple[str, str]]:
    """What the audit tells of an account: the action, and what kind of actor acted. Oldest first."""
    with supplier.Session.begin() as session:
        told = [*stream_trail(session, TrailFilter(account=(supplier.code, number)))]
    return [(it["action"], it["actor_kind"]) for it in reversed(told)]


def _of_batch(supplier: SupplierClient, batch_id: str) -> set[tuple[str, str]]:
    with supplier.Session.begin() as session:
        told = [*stream_trail(session, TrailFilter(organisation=supplier.organisation))]
    return {(it["action"], it["actor_kind"]) for it in told if it["subject"] == batch_id}


def _by_person(*actions: str) -> list[tuple[str, str]]:
    return [(action, "operator") for action in actions]


def test_the_rows_of_a_batch_and_of_an_undo_name_the_person_who_ordered_them(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    supplier, (account,) = batches.supplier, batches.supplier.accounts(1)
    fields = {"step": "import", "team": supplier.team}
    started = administrator.upload(supplier.code, ndjson([account]), **fields)
    batch_id = str(started.location).rstrip("/").rsplit("/", 1)[-1]
    batches.work()
    location, _ = administrator.act(f"/batches/{batch_id}/undo/", {"reason": "A test."})
    UndoClient(supplier).work(location.rstrip("/").rsplit("/", 1)[-1])
    number = account["external_account_number"]
    assert _story(supplier, number) == _by_person("account.staged", "account.processed", "account.reverted")
    assert set(_by_person("batch.started", "batch.ordered")) <= _of_batch(supplier, batch_id)


def test_the_rows_of_a_batch_whose_key_was_revoked_name_the_person_who_took_it_over(
    administrator: ConsoleClient, batches: BatchClient, supplier: SupplierClient
) -> None:
    account, *_ = supplier.accounts(1)
    batch_id = batches.start([account], "import")
    administrator.act(f"/batches/{batch_id}/pause/")
    with supplier.Session.begin() as session:
        revoke_api_key(session, supplier.api_key)
    administrator.act(f"/batches/{batch_id}/resume/")
    batches.work()
    number = account["external_account_number"]
    assert _story(supplier, number) == _by_person("account.staged", "account.processed")
    assert _by_person("batch.taken_over")[0] in _of_batch(supplier, batch_id)

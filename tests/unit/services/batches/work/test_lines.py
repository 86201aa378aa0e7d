"""What becomes of the lines of a chunk of accounts: in each mode, and if something is wrong with them."""

from typing import Any
from unittest.mock import patch

import pytest
from psycopg.errors import QueryCanceled
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.profile import Profile
from migration_payloads.validation import ValidatedAccount, validate_text
from migration_service import models
from migration_service.services.batches.work import accounts as batch_accounts
from migration_service.services.batches.work import lines
from migration_service.services.batches.work.chunks import ChunkKey
from migration_service.services.batches.work.lines import each_by_itself
from support.factories import Customer
from unit.services.batches.batch_rows import codes_of, lines_of, make_chunk, payload_of, work

_IN_PROGRESS = ("FAILED", [("account_import_in_progress", None)])


def _stage(session: Session, customer: Customer, *numbers: str, **parts: Any) -> ChunkKey:
    """Stage accounts in a batch. Return the chunk of a batch that imports them."""
    staged = make_chunk(
        session, customer, [payload_of(customer, it, **parts) for it in numbers], mode="stage"
    )
    work(session, staged, len(numbers))
    number = models.AccountImportProcess.external_account_number
    processes = session.scalars(select(models.AccountImportProcess).order_by(number)).all()
    key = make_chunk(session, customer, [payload_of(customer, it) for it in numbers], source="pending")
    for line, process in zip(lines_of(session, key), processes, strict=True):
        line.payload, line.account_import_process_id = None, process.id
    session.flush()
    return key


@pytest.mark.parametrize("limit", ["PIECE_SECONDS", "PIECE_CLOCK_SECONDS"])
@pytest.mark.parametrize("kind", ["accounts", "notes"])
def test_lines_that_there_is_no_time_for_stay_as_they_are(
    session: Session, customer: Customer, limit: str, kind: str
) -> None:
    key = make_chunk(session, customer, [b"{", b"[", b"{"], mode="validate", kind=kind)
    with patch.object(lines, limit, -1.0):
        assert work(session, key, 3) == 2
        assert work(session, key, 3) == 1
    assert codes_of(session, key) == [*[("FAILED", [("parse_error", None)])] * 2, ("PENDING", [])]


def test_an_account_that_somebody_else_has_fails_and_the_others_are_created(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        staged = _stage(session, customer, "a", "b", "c")
        sent = make_chunk(session, customer, [payload_of(customer, it) for it in "abc"])
    held = select(models.AccountImportProcess.id).where(
        models.AccountImportProcess.external_account_number == "b"
    )
    with sessions() as another:
        another.execute(held.with_for_update())
        for key in (staged, sent):
            with sessions() as session:
                session.execute(text("SET LOCAL lock_timeout = '20ms'"))
                assert work(session, key, 3) == 0
                assert codes_of(session, key) == [("IMPORTED", []), _IN_PROGRESS, ("IMPORTED", [])]


def test_a_failure_that_is_about_no_line_is_raised(session: Session) -> None:
    session.execute(text("SET LOCAL statement_timeout = '20ms'"))
    with pytest.raises(DBAPIError) as raised:
        each_by_itself(session, [1], lambda _: session.execute(text("SELECT pg_sleep(60)")).all())
    assert isinstance(raised.value.orig, QueryCanceled)


def test_a_line_that_validation_stumbles_over_fails_and_the_log_says_where(
    session: Session, customer: Customer, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(payload: bytes, profile: Profile, time_zone: str) -> ValidatedAccount:
        if b"secret" in payload:
            raise ValueError("secret")
        return validate_text(payload, profile, time_zone)

    key = make_chunk(session, customer, [payload_of(customer, it) for it in ("secret", "a")], mode="validate")
    with patch.object(batch_accounts, "validate_text", stumble):
        work(session, key, 2)
    assert codes_of(session, key) == [("FAILED", [("line_failed_unexpectedly", None)]), ("VALID", [])]
    line = stumble.__code__.co_firstlineno + 2
    assert caplog.messages == [
        f"Line 1 of batch {key.batch_id} failed: ValueError in {__file__}, line {line}"
    ]

"""Attempts as the interface reports them: whose they are, their order, and with which error they failed."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.errors import (
    AccountCreationFailedError,
    AccountNotFoundError,
    AttemptNotFoundError,
    ErrorItem,
    NoWorkerAvailableError,
    PermissionDeniedError,
)
from migration_service.models import AccountImportProcess, Attempt
from migration_service.origin import SERVICE, acting_as
from migration_service.services.reporting.attempts import (
    AttemptReport,
    get_attempt,
    list_attempts,
)
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import AttemptState, Outcome
from unit.services.reporting.rows import add, make_process, team_of

_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _make(session: Session, known: KnownSupplier, process: AccountImportProcess, **values: Any) -> Attempt:
    given = {"id": new_id(), "dry_run": False, "operations_team_id": team_of(known)} | values
    return add(session, Attempt(account_import_process_id=process.id, **given))


@pytest.fixture
def attempts(session: Session, known: KnownSupplier, other: KnownSupplier) -> list[Attempt]:
    """Insert attempts of one account, the oldest first: one for each outcome, and one that still runs."""
    process = make_process(session, known, "1")
    _make(session, known, make_process(session, known, "2"))
    _make(session, other, make_process(session, other, "1"))
    failed = {"error_code": "broken", "error_detail": "It broke."}
    items = [{"code": "a", "detail": "A.", "attr": "x.0"}, {"code": "b", "detail": "B.", "attr": None}]
    return [
        _make(session, known, process, outcome=outcome, finished_at=_AT if outcome else None, **values)
        for outcome, values in (
            ("FAILED", failed | {"errors": items}),
            ("FAILED", failed),
            ("WITHDRAWN", {}),
            ("SUCCEEDED", {"service_account_number": "A-1"}),
            ("DRY_RUN_SUCCEEDED", {"dry_run": True}),
            (None, {}),
        )
    ]


def _get(session: Session, known: KnownSupplier, attempt_id: object) -> AttemptReport:
    return get_attempt(session, known.organisation_id, str(attempt_id))


def test_an_attempt_is_reported(session: Session, known: KnownSupplier, attempts: list[Attempt]) -> None:
    succeeded, running = attempts[3], attempts[5]
    expected = AttemptReport(
        attempt_id=succeeded.id,
        import_supplier="MINE",
        external_account_number="1",
        dry_run=False,
        outcome=Outcome.SUCCEEDED,
        service_account_number="A-1",
        error=None,
        created_at=succeeded.created_at,
        finished_at=_AT,
    )
    assert _get(session, known, succeeded.id) == expected
    assert expected.state is AttemptState.FINISHED
    found = _get(session, known, running.id)
    values: dict[str, Any] = {"attempt_id": running.id, "created_at": running.created_at}
    nothing: dict[str, Any] = dict.fromkeys(("outcome", "service_account_number", "finished_at"))
    assert found == replace(expected, **values, **nothing)
    assert found.state is AttemptState.IN_PROGRESS


def test_a_failed_attempt_has_the_error_of_its_request(
    session: Session, known: KnownSupplier, attempts: list[Attempt]
) -> None:
    for attempt, errors in (
        (attempts[0], [ErrorItem("a", "A.", "x.0"), ErrorItem("b", "B.", None)]),
        (attempts[1], [ErrorItem("broken", "It broke.", None)]),
    ):
        error = _get(session, known, attempt.id).error
        assert isinstance(error, AccountCreationFailedError)
        assert (error.code, error.detail) == ("broken", "It broke.")
        assert [*error.errors] == errors
    assert isinstance(_get(session, known, attempts[2].id).error, NoWorkerAvailableError)


def test_an_attempt_of_another_organisation_or_supplier_is_not_shown(
    session: Session, known: KnownSupplier, other: KnownSupplier, attempts: list[Attempt]
) -> None:
    for supplier, attempt_id in ((other, attempts[0].id), (known, new_id()), (known, "no id")):
        with pytest.raises(AttemptNotFoundError) as missing:
            _get(session, supplier, attempt_id)
        assert str(attempt_id) in str(missing.value.detail)
    limited = replace(SERVICE, import_supplier_ids=frozenset([other.id]))
    with acting_as(limited), pytest.raises(PermissionDeniedError):
        _get(session, known, attempts[0].id)


def test_attempts_of_an_account_are_listed_the_newest_first(
    session: Session, known: KnownSupplier, attempts: list[Attempt]
) -> None:
    newest = [it.id for it in attempts[::-1]]

    def listed(number: str = "1", before: UUID | None = None, limit: int = 9) -> list[UUID]:
        found = list_attempts(session, known, number, before=before, limit=limit)
        assert {it.external_account_number for it in found} <= {number}
        return [it.attempt_id for it in found]

    assert listed() == newest
    assert listed(limit=2) == newest[:2]
    assert listed(before=newest[1]) == newest[2:]
    assert listed(number="2") != []
    with pytest.raises(AccountNotFoundError):
        listed(number="3")

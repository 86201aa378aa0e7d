"""What becomes of the lines of a chunk of accounts: in each mode, and if something is wrong with them."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from psycopg.errors import QueryCanceled
from sqlalchemy import null, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.profile import Profile
from migration_payloads.validation import ValidatedAccount, validate_text
from migration_service import models
from migration_service.db.base import new_id
from migration_service.services.batches.work import accounts as batch_accounts
from migration_service.services.batches.work import processor_time
from migration_service.services.batches.work.chunks import ChunkKey, claim_chunk, work_on_chunk
from migration_service.services.batches.work.lines import each_by_itself
from support.factories import Customer
from support.rows import find_supplier
from unit.services.batches.batch_rows import codes_of, lines_of, make_chunk, payload_of, work
from unit.services.undo.undo_rows import add_account

_IN_PROGRESS = ("FAILED", [("account_import_in_progress", None)])


def _accounts(session: Session) -> dict[str, str]:
    accounts = select(models.Account.external_account_number, models.Account.service_account_number)
    return {row.external_account_number: row.service_account_number for row in session.execute(accounts)}


def _processes(session: Session) -> Sequence[models.AccountImportProcess]:
    processes = select(models.AccountImportProcess).order_by(
        models.AccountImportProcess.external_account_number
    )
    return session.scalars(processes.execution_options(populate_existing=True)).all()


def _stage(session: Session, customer: Customer, *numbers: str, **parts: Any) -> ChunkKey:
    """Stage accounts in a batch. Return the chunk of a batch that imports them."""
    staged = make_chunk(
        session, customer, [payload_of(customer, it, **parts) for it in numbers], mode="stage"
    )
    work(session, staged, len(numbers))
    return _pending(session, customer)


def _pending(session: Session, customer: Customer, **values: Any) -> ChunkKey:
    processes = _processes(session)
    lines = [payload_of(customer, process.external_account_number) for process in processes]
    key = make_chunk(session, customer, lines, source="pending", **values)
    for line, process in zip(lines_of(session, key), processes, strict=True):
        line.payload, line.account_import_process_id = None, process.id
    session.flush()
    return key


def test_an_import_creates_what_can_be_created_and_says_what_is_wrong_with_the_others(
    session: Session, customer: Customer
) -> None:
    existing = add_account(session, customer, "existing")
    supplier_id = existing.import_supplier_id
    session.add(models.SkipMark(import_supplier_id=supplier_id, external_account_number="skipped"))
    session.flush()
    warned = payload_of(customer, "warned", billing_postcode="0000 SS")
    lines: list[Any] = [
        payload_of(customer, "first"),
        b"{",
        payload_of(customer, "foreign") | {"import_supplier": "ELSEWHERE"},
        {"external_account_number": "first", "notes": []},
        payload_of(customer, "existing"),
        payload_of(customer, "skipped"),
        warned,
        payload_of(customer, "faulty", ledgers=[{"ledger_balance": "1.00", "ledger_code": 5}]),
    ]
    key = make_chunk(session, customer, lines)
    assert work(session, key, len(lines)) == 0
    assert codes_of(session, key) == [
        ("IMPORTED", []),
        ("FAILED", [("parse_error", None)]),
        ("FAILED", [("import_supplier_mismatch", "import_supplier")]),
        ("FAILED", [("line_kind_mismatch", "notes")]),
        ("ALREADY_IMPORTED", [("account_already_imported", None)]),
        ("SKIPPED", [("account_marked_to_skip", None)]),
        ("IMPORTED", []),
        ("FAILED", [("invalid", "ledgers.0.ledger_code")]),
    ]
    accounts = _accounts(session)
    assert set(accounts) == {"existing", "first", "warned"}
    found = lines_of(session, key)
    assert [it.service_account_number for it in found] == [
        *(accounts["first"], None, None, None),
        *(existing.service_account_number, None, accounts["warned"], None),
    ]
    assert [it.external_account_number for it in found] == [
        *("first", None, "foreign", "first", "existing", "skipped", "warned", "faulty")
    ]
    assert found[2].errors == [
        {
            "code": "import_supplier_mismatch",
            "detail": "The account names import supplier 'ELSEWHERE', "
            f"but the batch is for '{customer.import_supplier}'.",
            "attr": "import_supplier",
        }
    ]
    warnings = {it.external_account_number: one["code"] for it in found for one in it.warnings or ()}
    assert warnings == {"warned": "invalid_postcode"}


@pytest.mark.parametrize(
    ("mode", "good", "attempt"),
    [
        ("validate", "VALID", ()),
        ("stage", "STAGED", ()),
        ("dry-run", "WOULD_IMPORT", ("DRY_RUN_SUCCEEDED", True)),
        ("import", "IMPORTED", ("SUCCEEDED", False)),
    ],
)
def test_each_mode_leaves_what_it_promises(
    session: Session, customer: Customer, mode: str, good: str, attempt: tuple[Any, ...]
) -> None:
    _stage(session, customer, "staged")
    lines = [payload_of(customer, it, billing_address1="Singel 2") for it in ("staged", "new")]
    key = make_chunk(session, customer, [*lines, b"{"], mode=mode, address="192.0.2.1")
    attempts = [new_id() for _ in range(3)]
    assert claim_chunk(session, key, attempts)
    assert work_on_chunk(session, key, attempts) == 0
    assert [it.status for it in lines_of(session, key)] == [good, good, "FAILED"]
    accounts = _accounts(session)
    assert set(accounts) == ({"staged", "new"} if mode == "import" else set())
    assert [it.service_account_number for it in lines_of(session, key)] == [
        *(accounts.get("staged"), accounts.get("new"), None)
    ]
    made = {it.external_account_number: it for it in _processes(session)}
    changed = mode in ("stage", "import")
    assert set(made) == ({"staged", "new"} if changed else {"staged"})
    assert (made["staged"].payload["billing_address1"] == "Singel 2") == changed  # type: ignore[index]
    # An attempt needs a process. What a dry run stages for the first time is gone.
    tried = [it for it in ("staged", "new") if attempt and it in made]
    recorded = session.scalars(select(models.Attempt).order_by(models.Attempt.id)).all()
    assert [
        (it.id, it.account_import_process_id, it.service_account_number, it.outcome, it.dry_run)
        for it in recorded
    ] == [(id_, made[it].id, accounts.get(it), *attempt) for id_, it in zip(attempts, tried, strict=False)]
    batch = session.get_one(models.Batch, key.batch_id)
    assert all(
        (it.operations_team_id, it.api_key_id, it.request_id, it.address)
        == (batch.operations_team_id, None, f"batch {batch.id}", "192.0.2.1")
        for it in recorded
    )


@pytest.mark.parametrize("mode", ["dry-run", "import"])
def test_accounts_that_the_database_refuses_fail_on_their_own(
    session: Session, customer: Customer, mode: str
) -> None:
    for number in "bd":
        add_account(session, customer, number)
    # Their processes are pending, though they exist. So creation violates a constraint.
    session.execute(
        update(models.AccountImportProcess).values(
            state="PENDING", service_account_number=None, account_created_at=None
        )
    )
    key = make_chunk(session, customer, [payload_of(customer, it) for it in "abcde"], mode=mode)
    assert work(session, key, 5) == 0
    good: tuple[str, list[Any]] = ("WOULD_IMPORT" if mode == "dry-run" else "IMPORTED", [])
    bad = ("FAILED", [("account_not_storable", None)])
    assert codes_of(session, key) == [good, bad, good, bad, good]
    outcomes = select(models.Attempt.outcome, models.Attempt.error_code).order_by(models.Attempt.id)
    failed = ("FAILED", "account_not_storable")
    done = [] if mode == "dry-run" else [("SUCCEEDED", None)]
    assert [tuple(it) for it in session.execute(outcomes)] == [*done, failed, *done, failed, *done]


@pytest.mark.parametrize("limit", ["PIECE_SECONDS", "PIECE_CLOCK_SECONDS"])
@pytest.mark.parametrize("kind", ["accounts", "notes"])
def test_lines_that_there_is_no_time_for_stay_as_they_are(
    session: Session, customer: Customer, limit: str, kind: str
) -> None:
    key = make_chunk(session, customer, [b"{", b"[", b"{"], mode="validate", kind=kind)
    with patch.object(processor_time, limit, -1.0):
        assert work(session, key, 3) == 2
        assert work(session, key, 3) == 1
    assert codes_of(session, key) == [*[("FAILED", [("parse_error", None)])] * 2, ("PENDING", [])]


def test_staged_accounts_are_created_from_what_was_staged(session: Session, customer: Customer) -> None:
    key = _stage(session, customer, "a", "b")
    first, _ = lines_of(session, key)
    assert first.account_import_process_id
    first.external_account_number = None  # as of an account that was erased
    session.flush()
    assert work(session, key, 2) == 0
    assert codes_of(session, key) == [("IMPORTED", [])] * 2
    accounts = _accounts(session)
    assert [it.service_account_number for it in lines_of(session, key)] == [accounts["a"], accounts["b"]]
    again = _pending(session, customer)
    assert work(session, again, 2) == 0
    assert codes_of(session, again) == [("ALREADY_IMPORTED", [("account_already_imported", None)])] * 2
    assert [it.service_account_number for it in lines_of(session, again)] == [accounts["a"], accounts["b"]]


def test_what_is_staged_is_validated_again_if_the_rules_or_the_profile_have_changed(
    session: Session, customer: Customer
) -> None:
    _stage(session, customer, "a", "b", "c", billing_postcode="0000 SS")  # a warning
    for number, values in (("a", {"rules_version": "earlier"}), ("b", {"profile": "strict"})):
        # What was found then is not what is found now.
        of_number = models.AccountImportProcess.external_account_number == number
        session.execute(
            update(models.AccountImportProcess).where(of_number).values(**values, warnings=null())
        )
    key = _pending(session, customer, mode="validate")
    assert work(session, key, 3) == 0
    found = lines_of(session, key)
    assert [it.status for it in found] == ["VALID"] * 3
    assert [[one["code"] for one in it.warnings or ()] for it in found] == [["invalid_postcode"]] * 3
    key = _pending(session, customer, mode="dry-run", profile="strict")
    assert work(session, key, 3) == 0
    failed = ("FAILED", [("invalid_postcode", "billing_postcode")])
    assert codes_of(session, key) == [failed, ("WOULD_IMPORT", []), failed]
    assert len(session.scalars(select(models.Attempt)).all()) == 1


def test_staged_accounts_that_were_skipped_meanwhile_are_skipped(
    session: Session, customer: Customer, other: Customer
) -> None:
    key = _stage(session, customer, "a", "b", "c")
    mine, others = (find_supplier(session, it).id for it in (customer, other))
    for supplier_id, number in ((mine, "a"), (others, "b"), (mine, "c"), (mine, "d")):
        session.add(models.SkipMark(import_supplier_id=supplier_id, external_account_number=number))
    imported = models.AccountImportProcess.external_account_number == "c"
    session.execute(
        update(models.AccountImportProcess)
        .where(imported)
        .values(state="IMPORTED", service_account_number="A-1", account_created_at=text("now()"))
    )
    assert work(session, key, 3) == 0
    assert codes_of(session, key) == [
        ("SKIPPED", [("account_marked_to_skip", None)]),
        ("IMPORTED", []),
        ("ALREADY_IMPORTED", [("account_already_imported", None)]),
    ]
    assert lines_of(session, key)[2].service_account_number == "A-1"


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


def test_an_account_that_was_removed_after_the_batch_began_is_not_staged_any_more(
    session: Session, customer: Customer
) -> None:
    key = _stage(session, customer, "a", "b", "c")
    session.delete(_processes(session)[1])
    session.flush()
    assert work(session, key, 3) == 0
    gone = ("FAILED", [("account_not_staged", None)])
    assert codes_of(session, key) == [("IMPORTED", []), gone, ("IMPORTED", [])]


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


def test_customers_get_emails_if_the_supplier_sends_them(session: Session, customer: Customer) -> None:
    person = {"given_name": "An", "family_name": "Bos", "email": "an@example.com", "role": "PRIMARY"}
    for number, sends in (("without", False), ("with", True)):
        session.execute(update(models.ImportSupplier).values(sends_customer_emails=sends))
        session.expire_all()
        payload = payload_of(customer, number, unknown_occupier=False, customers=[person])
        key = make_chunk(session, customer, [payload])
        work(session, key, 1)
        assert codes_of(session, key) == [("IMPORTED", [])]
        assert (len(session.scalars(select(models.CustomerEmail)).all()) > 0) == sends

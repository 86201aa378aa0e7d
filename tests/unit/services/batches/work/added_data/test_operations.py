"""What each kind of added data finds wrong with a line, and how vendors are asked."""

from typing import Any
from unittest.mock import patch

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.models import PaymentInstruction
from migration_service.payment_vendors.protocol import PaymentInstructionDetails, VendorKind
from migration_service.services.accounts.added_data import OpenAccount
from migration_service.services.accounts.payment_instructions import InstructionOrder, find_instruction
from migration_service.services.batches.work.added_data import instructions
from migration_service.services.batches.work.added_data.instructions import (
    Answer,
    Confirmed,
    InstructionKey,
    ask_vendors,
)
from migration_service.services.batches.work.chunks import ChunkKey, read_wanted_instructions
from migration_service.services.setup.vendors import ReservedCalls, create_payment_vendor
from support.factories import Customer
from unit.services.batches import batch_rows
from unit.services.undo.undo_rows import add_account

_DETAILS = PaymentInstructionDetails(customer_reference="customer")


def _order(customer: Customer, number: str, reference: str, vendor: str = "V") -> dict[str, Any]:
    return batch_rows.line_of(customer, number, vendor=vendor, reference=reference, type="CARD")


def _make_vendor(session: Session, name: str = "V") -> None:
    create_payment_vendor(session, name, kind=VendorKind.HTTP, url="https://vendor.example/api")


def _wanted(
    sessions: sessionmaker[Session], customer: Customer, *orders: tuple[str, str]
) -> list[tuple[OpenAccount, dict[str, Any]]]:
    """Return instructions of an account, each of a vendor and a reference, as they are asked about."""
    with sessions.begin() as session:
        add_account(session, customer, "a")
        for vendor in {vendor for vendor, _ in orders}:
            _make_vendor(session, vendor)
        lines = [_order(customer, "a", reference, vendor) for vendor, reference in orders]
        key = batch_rows.make_chunk(session, customer, lines, kind="payment-instructions")
        return read_wanted_instructions(session, key, len(lines))


def test_vendors_are_called_at_their_rate(sessions: sessionmaker[Session], customer: Customer) -> None:
    wanted = _wanted(sessions, customer, *(("V", str(i)) for i in range(5)))
    calls = ReservedCalls(number=3, delay=0.5, interval=0.25)
    with (
        patch.object(instructions, "reserve_calls", return_value=calls) as reserve,
        patch.object(instructions, "ask_vendor", return_value=_DETAILS),
        patch.object(instructions, "time") as clock,
    ):
        clock.monotonic.return_value = 100.0
        answers = ask_vendors(sessions, wanted)
    assert [it.reference for it in answers] == ["0", "1", "2"]
    assert sorted(it.args[0] for it in clock.sleep.mock_calls) == [0.5, 0.75, 1.0]
    assert [(it.args[2], it.kwargs) for it in reserve.mock_calls] == [(5, {"seconds": 3.0})]


def test_a_vendor_that_is_unavailable_is_not_asked_again_and_others_are(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    orders = [("V", "refused"), ("V", "busy"), ("W", "1"), ("V", "not asked"), ("V", "no time")]
    wanted = _wanted(sessions, customer, *orders)
    busy, refused = errors.PaymentVendorUnavailableError(), errors.PaymentInstructionRejectedError()
    asked = []

    def ask(order: InstructionOrder) -> PaymentInstructionDetails:
        asked.append(order.reference)
        faults: dict[str, errors.ServiceError] = {"busy": busy, "refused": refused}
        if fault := faults.get(order.reference):
            raise fault
        return _DETAILS

    with (
        patch.object(instructions, "reserve_calls", return_value=ReservedCalls(3, 0, 0)),
        patch.object(instructions, "ask_vendor", ask),
        patch.object(instructions, "_THREADS", 1),
    ):
        answers = ask_vendors(sessions, wanted)
    assert sorted(asked) == ["1", "busy", "refused"]
    found = {it.reference: answer for it, answer in answers.items()}
    confirmed = found.pop("1")
    assert isinstance(confirmed, Confirmed)
    assert (confirmed.order.reference, confirmed.details) == ("1", _DETAILS)
    assert found == {"refused": refused} | dict.fromkeys(("busy", "not asked", "no time"), busy)


def _answer(
    session: Session, key: ChunkKey, *answered: PaymentInstructionDetails | errors.ServiceError | None
) -> dict[InstructionKey, Answer]:
    """Return answers of vendors about the first lines of a chunk. None: the account has it already."""
    answers: dict[InstructionKey, Answer] = {}
    wanted = read_wanted_instructions(session, key, len(answered))
    for (account, data), answer in zip(wanted, answered, strict=True):
        if isinstance(answer, errors.ServiceError):
            answers[InstructionKey.of(data)] = answer
        else:
            answers[InstructionKey.of(data)] = Confirmed(find_instruction(session, account, data), answer)
    return answers


def test_lines_have_what_their_vendors_answered(session: Session, customer: Customer) -> None:
    accounts = [add_account(session, customer, it) for it in "abc"]
    _make_vendor(session)
    orders = [
        *(_order(customer, "a", it) for it in ("new", "known", "refused", "later")),
        _order(customer, "b", "known"),
        *(_order(customer, "c", it) for it in ("not asked", "new")),
        _order(customer, "nobody", "new"),
        _order(customer, "a", "new") | {"type": 5},
    ]
    key = batch_rows.make_chunk(session, customer, orders, kind="payment-instructions")
    wanted = read_wanted_instructions(session, key, len(orders))
    assert [(account.id, data["reference"]) for account, data in wanted] == [
        *((accounts[0].id, it) for it in ("new", "known", "refused", "later")),
        (accounts[1].id, "known"),
        *((accounts[2].id, it) for it in ("not asked", "new")),
    ]
    refused, later = errors.PaymentInstructionRejectedError(), errors.PaymentVendorUnavailableError()
    answers = _answer(session, key, _DETAILS, None, refused, later, None)
    answers[InstructionKey.of(wanted[6][1])] = next(iter(answers.values()))
    assert batch_rows.work(session, key, len(orders), answers=answers) == 2
    assert batch_rows.codes_of(session, key) == [
        ("ADDED", []),
        ("ALREADY_ADDED", []),
        ("FAILED", [("payment_instruction_rejected", "reference")]),
        ("DEFERRED", []),
        ("ALREADY_ADDED", []),
        ("PENDING", []),
        ("PENDING", []),  # behind the one that nobody was asked about
        ("FAILED", [("account_not_found", "external_account_number")]),
        ("FAILED", [("invalid", "type")]),
    ]
    assert batch_rows.warnings_of(session, key)[3] == [("payment_vendor_unavailable", None)]
    stored = session.execute(select(PaymentInstruction.account_pk, PaymentInstruction.reference)).all()
    assert [tuple(it) for it in stored] == [(accounts[0].id, "new")]


def test_an_instruction_that_another_organisation_has_fails_on_its_own(
    session: Session, customer: Customer, other: Customer
) -> None:
    _make_vendor(session)
    for owner, number, expected in ((other, "a", "ADDED"), (customer, "b", "FAILED")):
        add_account(session, owner, number)
        key = batch_rows.make_chunk(session, owner, [_order(owner, number, "1")], kind="payment-instructions")
        assert batch_rows.work(session, key, 1, answers=_answer(session, key, _DETAILS)) == 0
        assert batch_rows.codes_of(session, key)[0][0] == expected
    assert batch_rows.codes_of(session, key) == [("FAILED", [("payment_instruction_rejected", "reference")])]

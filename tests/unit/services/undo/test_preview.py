"""What an undo would do: what blocks which accounts, and how many e-mails would be withdrawn."""

from typing import Any

import pytest
from sqlalchemy import null, text, update
from sqlalchemy.orm import Session

from migration_service.models import Account, ImportSupplier, Note
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.preview import FoundBlocker, UndoPreview, preview_undo
from migration_service.services.waves.reading import list_waves
from migration_service.states import EmailState, UndoBlocker, WaveState
from support.factories import Customer
from unit.services.undo.undo_rows import MOMENT, add_account, add_email, add_line, find_supplier
from unit.services.waves.wave_rows import batch_of, make_plan


def _preview(session: Session, customer: Customer, *numbers: str, **values: Any) -> UndoPreview:
    supplier = find_supplier(session, customer)
    return preview_undo(session, UndoOrder(supplier=supplier, external_account_numbers=numbers, **values))


def _add_note(session: Session, account: Account) -> None:
    note = Note(account_pk=account.id, documents=[], created_at=MOMENT, is_pinned=False, sameness_sha256=b"")
    session.add(note)
    session.flush()


def test_everything_that_blocks_an_account_is_counted(
    session: Session, customer: Customer, other: Customer
) -> None:
    numbers = [f"n{number}" for number in range(10)]
    accounts = [add_account(session, customer, number) for number in numbers[:8]]
    accounts.append(add_account(session, customer, "n8", payload=null()))
    accounts.append(add_account(session, customer, "n9"))
    for account in accounts[1:8]:
        _add_note(session, account)
    add_email(session, accounts[0])
    add_email(session, accounts[1])
    add_email(session, accounts[2], state=EmailState.SENT, sent_at=MOMENT)
    add_email(session, accounts[9], state=EmailState.REFUSED)
    bystander = add_account(session, other, "n0", "A-99")
    add_email(session, bystander)
    add_account(session, customer, "staged", state="PENDING")
    preview = _preview(session, customer, *numbers, "n1", "staged", "nobody")
    (added, sent, removed) = preview.blockers
    assert len(added.examples) == 5
    assert set(added.examples) < set(numbers[1:8])
    assert preview == UndoPreview(
        import_supplier=customer.import_supplier,
        batch_id=None,
        plan_id=None,
        wave_number=None,
        accounts=10,
        revertible=2,
        revertible_with_overrides=9,
        emails=1,
        gone=2,
        blockers=[
            FoundBlocker(UndoBlocker.DATA_ADDED, True, 7, added.examples),
            FoundBlocker(UndoBlocker.EMAIL_SENT, True, 1, ["n2"]),
            FoundBlocker(UndoBlocker.PAYLOAD_REMOVED, False, 1, ["n8"]),
        ],
    )
    assert sent.may_be_overridden
    assert not removed.may_be_overridden


@pytest.mark.parametrize(
    ("values", "blocks"),
    [
        ({"state": EmailState.PENDING}, False),
        ({"state": EmailState.PENDING, "message_id": "a"}, True),
        ({"state": EmailState.PENDING, "message_id": "a", "failures": 1}, False),
        ({"state": EmailState.REFUSED, "message_id": "a"}, False),
        ({"state": EmailState.SENT, "sent_at": MOMENT}, True),
    ],
)
def test_an_email_that_may_have_been_sent_blocks(
    session: Session, customer: Customer, values: dict[str, Any], *, blocks: bool
) -> None:
    add_email(session, add_account(session, customer, "a"), **values)
    found = _preview(session, customer, "a")
    assert [it.code for it in found.blockers] == ([UndoBlocker.EMAIL_SENT] if blocks else [])
    assert found.emails == (values["state"] == EmailState.PENDING and not blocks)


def test_after_go_live_every_account_is_blocked_and_an_erased_one_for_two_reasons(
    session: Session, customer: Customer, other: Customer
) -> None:
    live = ImportSupplier.id == find_supplier(session, customer).id
    session.execute(update(ImportSupplier).where(live).values(live_at=MOMENT))
    add_account(session, customer, "a")
    add_account(session, customer, "b", payload=null()).erased_at = MOMENT
    add_account(session, other, "a", "A-9")
    session.flush()
    found = _preview(session, customer, "a", "b")
    assert {it.code: it.accounts for it in found.blockers} == {
        UndoBlocker.SUPPLIER_LIVE: 2,
        UndoBlocker.ERASED: 1,
    }
    assert (found.accounts, found.revertible) == (2, 0)
    assert _preview(session, other, "a").blockers == []


def test_of_a_wave_it_is_said_which_accounts_were_reverted_before(
    session: Session, customer: Customer
) -> None:
    plan = make_plan(session, customer, WaveState.APPROVED, WaveState.STOPPED)
    _, wave = list_waves(session, plan.id)
    batch = batch_of(session, wave)
    add_account(session, customer, "a")
    for place, number in enumerate("abc", 1):
        add_line(session, batch.id, place, number)
    add_line(session, batch.id, 4, "d", status="FAILED")
    found = _preview(session, customer, batch=batch)
    assert (found.batch_id, found.plan_id, found.wave_number) == (batch.id, plan.id, 2)
    assert (found.accounts, found.revertible, found.gone, found.blockers) == (1, 1, 2, [])


def test_to_judge_a_large_batch_may_take_ten_minutes(session: Session, customer: Customer) -> None:
    _preview(session, customer, "a")
    assert session.scalar(text("SHOW statement_timeout")) == "10min"

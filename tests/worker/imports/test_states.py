"""The table of import states against the real database: every change from every state."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.profile import Profile
from migration_payloads.validation import ValidatedAccount, validate_account
from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction, begin
from migration_service.errors import AccountCreationFailedError
from migration_service.models import AccountImportProcess, Attempt
from migration_service.services.imports import states, storing
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import ImportState, Outcome
from support.supplier_client import SupplierClient


@dataclass
class Scene:
    """A staged account, with everything that a change may need."""

    sessions: sessionmaker[Session]
    supplier: KnownSupplier
    account: ValidatedAccount
    attempt: states.RunningAttempt

    @property
    def number(self) -> str:
        return str(self.account.data["external_account_number"])

    def process(self) -> AccountImportProcess:
        with self.sessions() as session:
            return session.get_one(AccountImportProcess, self.attempt.account_import_process_id)

    def find_attempt(self) -> Attempt | None:
        with self.sessions() as session:
            return session.get(Attempt, self.attempt.id)

    def put_into(self, state: ImportState) -> None:
        """Write a state into the row, with the attempt that only IN_PROGRESS has."""
        if state is ImportState.IN_PROGRESS:
            with begin(self.sessions) as transaction:
                assert states.start(transaction, self.attempt, durable=True)
            return
        with self.sessions.begin() as session:
            process = AccountImportProcess.id == self.attempt.account_import_process_id
            session.execute(update(AccountImportProcess).where(process).values(state=state))


@pytest.fixture
def scene(supplier: SupplierClient) -> Scene:
    (payload,) = supplier.accounts()
    account = validate_account(payload, Profile.LENIENT)
    known = supplier.known()
    with begin(supplier.Session) as transaction:
        storing.stage(transaction, known, [account])
    attempt = supplier.attempt_of(payload["external_account_number"])
    return Scene(supplier.Session, known, account, attempt)


def _stage(scene: Scene, transaction: OpenTransaction) -> bool:
    scene.account.sha256 = b"of another payload"
    (staged,) = storing.stage(transaction, scene.supplier, [scene.account])
    return staged.state is states.STAGE.target


def _begin(scene: Scene, transaction: OpenTransaction) -> bool:
    return states.start(transaction, scene.attempt, durable=True)


def _succeeded(scene: Scene) -> states.EndedAttempt:
    return states.EndedAttempt(scene.attempt, Outcome.SUCCEEDED, "A-12345678")


def _import(scene: Scene, transaction: OpenTransaction) -> bool:
    started = scene.find_attempt() is not None
    return _complete(transaction, _succeeded(scene), started=started)


def _return(scene: Scene, transaction: OpenTransaction) -> bool:
    error = AccountCreationFailedError("It is not possible.")
    return _complete(transaction, states.EndedAttempt.with_error(scene.attempt, error), started=True)


def _complete(transaction: OpenTransaction, ended: states.EndedAttempt, *, started: bool) -> bool:
    try:
        states.complete(transaction, [ended], started=started)
    except states.StateChangeError:
        return False
    return True


def _skip(scene: Scene, transaction: OpenTransaction) -> bool:
    return bool(states.change(transaction, scene.supplier.id, [scene.number], states.SKIP))


def _unskip(scene: Scene, transaction: OpenTransaction) -> bool:
    return bool(states.change(transaction, scene.supplier.id, [scene.number], states.UNSKIP))


def _revert(scene: Scene, transaction: OpenTransaction) -> bool:
    try:
        states.revert(transaction, [scene.attempt.account_import_process_id])
    except states.StateChangeError:
        return False
    return True


_MAKE: dict[str, tuple[states.Change, Callable[[Scene, OpenTransaction], bool]]] = {
    "stage": (states.STAGE, _stage),
    "begin": (states.START, _begin),
    "import": (states.IMPORT, _import),
    "return": (states.RETURN, _return),
    "skip": (states.SKIP, _skip),
    "unskip": (states.UNSKIP, _unskip),
    "revert": (states.REVERT, _revert),
}


def test_the_walk_has_every_change_of_the_table() -> None:
    changes = [it for it in vars(states).values() if isinstance(it, states.Change)]
    assert [change for change, _make in _MAKE.values()] == changes


@pytest.mark.parametrize("state", ImportState)
@pytest.mark.parametrize("name", _MAKE)
def test_a_change_is_made_from_its_sources_and_refused_from_every_other_state(
    scene: Scene, name: str, state: ImportState
) -> None:
    change, make = _MAKE[name]
    scene.put_into(state)
    with scene.sessions() as session:
        allowed = make(scene, OpenTransaction.of(session))
        if allowed:
            session.commit()
        else:
            session.rollback()
    assert allowed == (state in change.sources)
    assert scene.process().state == (change.target if allowed else state)


def test_a_reverted_process_is_as_if_no_attempt_had_begun(scene: Scene, supplier: SupplierClient) -> None:
    (_, other) = supplier.accounts(2)
    supplier.stage(other)
    number = supplier.process_of(other["external_account_number"])
    with scene.sessions.begin() as session:
        session.execute(update(AccountImportProcess).where(number).values(state=ImportState.IMPORTED))
    scene.put_into(ImportState.IN_PROGRESS)
    with begin(scene.sessions) as transaction:
        states.complete(transaction, [_succeeded(scene)], started=True)
    with begin(scene.sessions) as transaction:
        states.revert(transaction, [scene.attempt.account_import_process_id])
    process = scene.process()
    assert (process.state, process.tries, process.dispatched_at) == (ImportState.PENDING, 0, None)
    assert (process.service_account_number, process.account_created_at) == (None, None)
    with scene.sessions() as session:
        assert session.scalar(select(AccountImportProcess.state).where(number)) == ImportState.IMPORTED


@pytest.mark.parametrize("started", [True, False])
def test_an_attempt_ends_once(scene: Scene, started: bool) -> None:
    if started:
        scene.put_into(ImportState.IN_PROGRESS)
    first, again = (
        states.EndedAttempt.with_error(scene.attempt, AccountCreationFailedError(why))
        for why in ("First.", "Again.")
    )
    with begin(scene.sessions) as transaction:
        states.complete(transaction, [first], started=started)
    with pytest.raises(states.StateChangeError), begin(scene.sessions) as transaction:
        states.complete(transaction, [again], started=started)
    attempt = scene.find_attempt()
    assert attempt is not None
    assert attempt.error_detail == "First."
    assert scene.process().account_created_at is None


def test_an_attempt_that_is_not_the_current_one_cannot_end_the_process(scene: Scene) -> None:
    scene.put_into(ImportState.IN_PROGRESS)
    other = replace(_succeeded(scene), attempt=replace(scene.attempt, id=new_id()))
    with pytest.raises(states.StateChangeError), begin(scene.sessions) as transaction:
        states.complete(transaction, [other], started=True)
    assert scene.process().state == ImportState.IN_PROGRESS

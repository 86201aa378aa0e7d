"""Erasing an account while its line, its upload or its staging is under way, in every order."""

import secrets
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.schemas.json import parse_json
from migration_payloads.validation import validate_account
from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountImportInProgressError
from migration_service.services.accounts.erasure import Erasure, erase_account, remove_staged_again
from migration_service.services.batches.work.chunks import ChunkKey, claim_chunk, work_on_chunk
from migration_service.services.imports import storing
from migration_service.services.setup.suppliers import KnownSupplier
from support.batch_client import BatchClient, ndjson
from support.interleavings import COMMIT, Run, Scenario, Step, explore
from support.marked_person import find_mark, marked_parts
from support.supplier_client import SupplierClient


@pytest.fixture
def known(supplier: SupplierClient) -> KnownSupplier:
    return supplier.known()


def _payload(known: KnownSupplier, mark: str) -> dict[str, Any]:
    number = f"erased {secrets.token_hex(6)}"
    return {"import_supplier": known.code, "external_account_number": number, **marked_parts(mark)}


def _mark() -> str:
    return f"Qwirinus{secrets.token_hex(6)}"


def _erase(known: KnownSupplier, number: str) -> Step:
    def erase(session: Session) -> Erasure:
        return erase_account(session, known, number, reason="Request 1")

    return ("erase", erase)


def _work(key: ChunkKey) -> Sequence[Step]:
    attempts = [new_id()]

    def claim(session: Session) -> bool:
        claimed = claim_chunk(session, key, attempts)
        session.commit()
        return claimed

    return [("claim", claim), ("work", lambda session: work_on_chunk(session, key, attempts)), COMMIT]


@pytest.mark.parametrize("mode", ["validate", "stage", "import", "dry-run"])
def test_a_line_that_a_worker_holds_is_erased_with_what_was_made_of_it(
    batches: BatchClient, known: KnownSupplier, mode: str
) -> None:
    waited = set[str]()

    def scenario() -> Scenario:
        mark = _mark()
        payload = _payload(known, mark)
        batch_id = UUID(batches.start([payload], mode))
        assert "batch_line" in find_mark(batches.supplier.Session, mark)

        def check(run: Run) -> None:
            waited.update(run.waited)
            assert not run.errors
            assert find_mark(batches.supplier.Session, mark) == []

        number = payload["external_account_number"]
        acts = {"worker": _work(ChunkKey(batch_id, 1)), "operator": [_erase(known, number), COMMIT]}
        return Scenario(acts, check)

    assert explore(batches.supplier.Session, scenario) >= 7
    assert waited == {"worker.work", "operator.erase"}


def test_whoever_erases_waits_for_a_slow_worker_only_so_long(
    batches: BatchClient, known: KnownSupplier
) -> None:
    payload = _payload(known, _mark())
    key = ChunkKey(UUID(batches.start([payload], "validate")), 1)
    steps = dict(_work(key))
    with batches.supplier.Session() as worker, batches.supplier.Session() as operator:
        assert steps["claim"](worker)
        steps["work"](worker)
        operator.execute(text("SET LOCAL lock_timeout = '50ms'"))
        with pytest.raises(AccountImportInProgressError):
            _erase(known, payload["external_account_number"])[1](operator)


@pytest.mark.parametrize("mode", ["validate", "stage", "import"])
@pytest.mark.parametrize("created", [False, True], ids=["never created", "created"])
def test_a_line_that_arrives_after_the_erasure_keeps_neither_text_nor_findings(
    batches: BatchClient, known: KnownSupplier, mode: str, created: bool
) -> None:
    mark = _mark()
    payload = _payload(known, mark)
    batches.run([payload], "import" if created else "validate")
    with batches.supplier.Session.begin() as session:
        _erase(known, payload["external_account_number"])[1](session)
    assert find_mark(batches.supplier.Session, mark) == []
    batch_id = batches.start([payload], mode)
    assert find_mark(batches.supplier.Session, mark) == ["batch_line"]
    batches.work()
    assert batches.get(batch_id)["state"] == "COMPLETED"
    assert find_mark(batches.supplier.Session, mark) == []


def test_the_findings_of_an_account_that_was_not_erased_are_kept(
    batches: BatchClient, known: KnownSupplier
) -> None:
    mark, other = _mark(), _mark()
    batches.run([_payload(known, mark)], "validate")
    erased = _payload(known, other)
    batches.run([erased], "validate")
    with batches.supplier.Session.begin() as session:
        _erase(known, erased["external_account_number"])[1](session)
    answer = batches.post(ndjson([erased, _payload(known, mark)]), "validate")
    assert answer.status_code == 202
    batches.work()
    assert find_mark(batches.supplier.Session, other) == []
    assert find_mark(batches.supplier.Session, mark) == ["batch_line"]


def test_an_account_that_is_staged_while_it_is_erased_is_removed_by_the_next_sweep(
    batches: BatchClient, known: KnownSupplier
) -> None:
    sessions = batches.supplier.Session
    left = []

    def scenario() -> Scenario:
        mark = _mark()
        payload = _payload(known, mark)
        number = payload["external_account_number"]
        batches.run([payload], "validate")  # so that there is something to erase
        account = validate_account(parse_json(msgspec.json.encode(payload)), Profile.LENIENT)

        def stage(session: Session) -> None:
            storing.stage(OpenTransaction.of(session), known, [account])

        def check(run: Run) -> None:
            assert not run.errors
            left.append(bool(find_mark(sessions, mark)))
            with sessions.begin() as session:
                remove_staged_again(session, limit=10)
            assert find_mark(sessions, mark) == []

        acts: dict[str, list[Step]] = {
            "supplier": [("stage", stage), COMMIT],
            "operator": [_erase(known, number), COMMIT],
        }
        return Scenario(acts, check)

    assert explore(sessions, scenario) >= 4
    assert True in left

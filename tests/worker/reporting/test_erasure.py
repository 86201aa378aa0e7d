"""What is erased of an account, also while others work on it."""

import json
import secrets
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.profile import Profile
from migration_payloads.schemas.json import parse_json
from migration_payloads.validation import validate_account
from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountImportInProgressError
from migration_service.services.accounts.erasure import erase_account, remove_staged_again
from migration_service.services.batches.work.chunks import ChunkKey, claim_chunk, work_on_chunk
from migration_service.services.imports import storing
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.imported_account import ImportedAccount, code_of
from support.interleavings import COMMIT, Script, Step, explore
from support.marked_person import find_mark, marked_parts
from support.supplier_client import SupplierClient


def erase(supplier: SupplierClient, number: str) -> Any:
    body = {"import_supplier": supplier.code, "external_account_number": number, "reason": "Request 1"}
    return supplier.post("/account-import-process/erase/", body)


def test_an_organisation_erases_one_account_after_the_other(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    accounts = [ImportedAccount.create(supplier, worker_resources) for _ in range(2)]
    other = ImportedAccount.create(SupplierClient.create(supplier.app, supplier.Session), worker_resources)
    with supplier.Session() as session:
        known = supplier.known()
        erase_account(session, known, accounts[0].number, reason="Request 1")
        refused = erase(supplier, accounts[1].number)
        assert (refused.status_code, code_of(refused)) == (429, "share_used")
        assert refused.headers["Retry-After"]
        assert erase(other.supplier, other.number).status_code == 200
        session.commit()
    assert erase(supplier, accounts[1].number).status_code == 200


_NUMBER = "8812345665"
#: The forms in which a number is sent, as JSON, and what follows the other members.
_FORMS = [
    (_NUMBER, "}"),
    (f"{_NUMBER}.0", "}"),
    (f"{_NUMBER}.00", "}"),
    ("8.812345665E+9", "}"),
    (f'" {_NUMBER}"', "}"),
    (f'"{_NUMBER}\\t "', "}"),
    (f'"\\u00a0{_NUMBER}"', "}"),
    (f'"{_NUMBER[:4]}\\u200b{_NUMBER[4:]}"', "}"),
    (f'"\ufeff{_NUMBER}"', "}"),
    (f'"{_NUMBER}.0"', "}"),
    (f'" {_NUMBER}.00"', "}"),
    (f'"{_NUMBER}"', "}"),
    ('"\uff18\uff18\uff11\uff12\uff13\uff14\uff15\uff16\uff16\uff15"', "}"),
    (_NUMBER, ", "),
    (f'" {_NUMBER}"', ""),
    (f'"{_NUMBER}"', ", x"),
]


@pytest.mark.parametrize("kind", ["accounts", "notes"])
def test_every_form_of_the_number_is_found_before_and_after_the_erasure(
    kind: str,
    batches: BatchClient,
    sessions: sessionmaker[Session],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "migration_service")
    mark = _mark()
    others = ["1" + _NUMBER, f'"1{_NUMBER}.0"', f"{_NUMBER}0", f'"{_NUMBER}-0"', f"{_NUMBER}.5"]
    rest = {"import_supplier": batches.supplier.code, "notes": [{"body": mark}], **marked_parts(mark)}
    members = json.dumps(rest)[1:-1]
    forms = [it for it in _FORMS if kind == "notes" or it[0] != f'"{_NUMBER}.0"']  # it is another account
    lines = [f'{{"external_account_number": {form}, {members}{end}'.encode() for form, end in forms]
    neighbours = [f'{{"external_account_number": {it}, "note": "kept"}}'.encode() for it in others]
    first = batches.run([*lines, *neighbours], "stage" if kind == "accounts" else "dry-run", kind=kind)
    unprocessed = batches.start(lines, "validate" if kind == "accounts" else "import", kind=kind)
    body = {"reason": "a reason", "batch": first["batch_id"], "line_numbers": [1, 5]}
    path = f"/reconciliation/{batches.supplier.code}/acknowledgements/"
    assert batches.supplier.post(path, body).status_code == 201
    assert "batch_line" in find_mark(sessions, mark)
    answer = erase(batches.supplier, _NUMBER)
    assert (answer.status_code, answer.json["batch_lines"]) == (200, 2 * len(forms))
    assert find_mark(sessions, mark) == []
    failed = batches.supplier.get(f"/batches/{first['batch_id']}/failed-lines/").text
    assert failed.count("kept") == len(neighbours)

    batches.work()
    batches.run(lines, "stage" if kind == "accounts" else "dry-run", kind=kind)
    assert find_mark(sessions, mark) == []
    assert batches.results(unprocessed)
    assert find_mark(sessions, "a reason") == ["audit_entry"]
    redis = batches.resources.redis
    assert mark not in str([(it, redis.dump(it)) for it in redis.scan_iter("*")])
    assert mark not in caplog.text


@pytest.fixture
def known(supplier: SupplierClient) -> KnownSupplier:
    return supplier.known()


def _payload(known: KnownSupplier, mark: str) -> dict[str, Any]:
    number = f"erased {secrets.token_hex(6)}"
    return {"import_supplier": known.code, "external_account_number": number, **marked_parts(mark)}


def _mark() -> str:
    """Return a word that occurs nowhere else."""
    return f"Qwirinus{secrets.token_hex(6)}"


def _erase(known: KnownSupplier, number: str) -> Step:
    def erase(session: Session) -> object:
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

    def script() -> Script:
        mark = _mark()
        payload = _payload(known, mark)
        batch_id = UUID(batches.start([payload], mode))
        assert "batch_line" in find_mark(batches.supplier.Session, mark)
        number = payload["external_account_number"]
        run = yield {"worker": _work(ChunkKey(batch_id, 1)), "operator": [_erase(known, number), COMMIT]}
        waited.update(run.waited)
        assert find_mark(batches.supplier.Session, mark) == []

    assert explore(batches.supplier.Session, script) >= 7
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


def test_an_account_that_is_staged_while_it_is_erased_is_removed_by_the_next_sweep(
    batches: BatchClient, known: KnownSupplier
) -> None:
    sessions = batches.supplier.Session
    left = []

    def script() -> Script:
        mark = _mark()
        payload = _payload(known, mark)
        number = payload["external_account_number"]
        batches.run([payload], "validate")  # so that there is something to erase
        account = validate_account(parse_json(msgspec.json.encode(payload)), Profile.LENIENT)

        def stage(session: Session) -> None:
            storing.stage(OpenTransaction.of(session), known, [account])

        yield {
            "supplier": [("stage", stage), COMMIT],
            "operator": [_erase(known, number), COMMIT],
        }
        left.append(bool(find_mark(sessions, mark)))
        with sessions.begin() as session:
            remove_staged_again(session, limit=10)
        assert find_mark(sessions, mark) == []

    assert explore(sessions, script) >= 4
    assert True in left

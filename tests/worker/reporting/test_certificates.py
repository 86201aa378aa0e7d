"""Certificates: what they say, and that they hold without the service, also after an erasure."""

import tracemalloc
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import column, func, insert, literal, select, update

from migration_payloads.files import certificates as format_
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.db.jobs import Progress
from migration_service.models import Account, Certificate, CertificateLeaf
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.certificates import making
from migration_service.services.certificates.reading import stream_certificate
from migration_service_client.command import main
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient
from support.wave_client import WaveClient

pytestmark = pytest.mark.usefixtures("neighbour")

_AT = "/certificates/"


def _make(supplier: SupplierClient, **body: Any) -> dict[str, Any]:
    """Start a certificate, do the workers' work, and return what is known of it."""
    answer = supplier.post(_AT, {"import_supplier": supplier.code, "by": "Grace", **body})
    assert answer.status_code == 202, answer.text
    with supplier.app.app_context():
        key = supplier.app.extensions["migration_service"].settings.certificate_key
    started = parse_json(answer.data)["certificate_id"]
    progress = Progress.WORKED
    while progress is Progress.WORKED:
        with supplier.Session.begin() as session:
            progress = making.certify_piece(session, UUID(started), key)
    return _get(supplier, f"{_AT}{started}/")


def _get(supplier: SupplierClient, path: str) -> dict[str, Any]:
    answer = supplier.get(path)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = parse_json(answer.data)
    return found


def _file(supplier: SupplierClient, made: dict[str, Any], account: str | None = None) -> bytes:
    below = "file" if account is None else f"accounts/{account}"
    answer = supplier.get(f"{_AT}{made['certificate_id']}/{below}/")
    assert answer.status_code == 200, answer.text
    return bytes(answer.data)


def _verify(folder: Path, content: bytes, *options: str) -> Result:
    file = folder / "certificate.ndjson"
    file.write_bytes(content)
    return CliRunner().invoke(main, ["certificate", "verify", str(file), *options])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subtrees of two accounts, so that few accounts make several pieces."""
    monkeypatch.setattr(format_, "SUBTREE", 2)


@pytest.fixture
def numbers(batches: BatchClient, small: None) -> list[str]:
    accounts = batches.supplier.accounts(5)
    batches.run(accounts)
    batches.supplier.reconcile()
    return [it["external_account_number"] for it in accounts]


def test_a_certificate_and_the_proof_of_each_account_hold_without_the_service(
    batches: BatchClient, numbers: list[str], tmp_path: Path
) -> None:
    supplier = batches.supplier
    made = _make(supplier)
    assert (made["accounts"], made["clean"], made["requested_by"]) == (5, True, "Grace")
    whole = _file(supplier, made)
    found = _verify(tmp_path, whole, "--key", made["public_key"])
    assert (found.exit_code, found.output.count("holds")) == (0, 1), found.output
    assert not any(number.encode() in whole for number in numbers)
    receipt = parse_json(whole.splitlines()[2])
    assert (receipt["clean"], receipt["is_of_all_compared"], receipt["sent"]["created"]) == (True, True, 5)
    for account in supplier.accounts(5):
        sent = tmp_path / "sent.ndjson"
        sent.write_bytes(encode_json(account))
        proof = _file(supplier, made, account["external_account_number"])
        assert not any(it.encode() in proof for it in numbers if it != account["external_account_number"])
        found = _verify(tmp_path, proof, "--sent", str(sent))
        assert "What was created is what was sent." in found.output, found.output
        sent.write_bytes(encode_json(account | {"unknown_occupier": True}))
        assert _verify(tmp_path, proof, "--sent", str(sent)).exit_code == 1


def test_an_account_that_differs_is_certified_as_it_is(
    batches: BatchClient, numbers: list[str], tmp_path: Path
) -> None:
    supplier = batches.supplier
    with supplier.Session.begin() as session:
        wrong = update(Account).where(Account.external_account_number == numbers[0])
        session.execute(wrong.values(billing_address1="Elsewhere 1"))
    supplier.reconcile()
    path, known = (
        f"/reconciliation/{supplier.code}/receipt/exceptions/",
        {"problem": "DIFFERING", "by": "Ada"},
    )
    exceptions = [
        known | {"external_account_number": numbers[0], "reason": "He moved."},
        known | {"reason": "All."},
    ]
    assert [supplier.post(path, it).status_code for it in exceptions] == [201, 201]
    made = _make(supplier)
    assert made["clean"] is False
    receipt = parse_json(_file(supplier, made).splitlines()[2])
    place = parse_json(_file(supplier, made, numbers[0]).splitlines()[-1])["number"]
    told = [(it["account"], it["reason"], it["accepted_by"]) for it in receipt["exceptions"]]
    assert (told, receipt["open"]) == ([(place, "He moved.", "Ada"), (None, "All.", "Ada")], [])
    said = [_verify(tmp_path, _file(supplier, made, number)).output for number in numbers]
    assert ["What was created is not what was sent." in it for it in said] == [True] + [False] * 4


def test_after_an_erasure_the_certificate_holds_and_nobody_can_confirm_a_guess(
    batches: BatchClient, numbers: list[str], tmp_path: Path
) -> None:
    supplier = batches.supplier
    made = _make(supplier)
    before, erased = _file(supplier, made), numbers[2]
    with supplier.Session.begin() as session:
        erase_account(session, supplier.known(), erased, reason="Request 1")
    assert _file(supplier, made) == before
    assert _verify(tmp_path, before).exit_code == 0
    refused = supplier.get(f"{_AT}{made['certificate_id']}/accounts/{erased}/")
    assert (refused.status_code, parse_json(refused.data)["errors"][0]["code"]) == (400, "account_erased")
    keys = {"certificate_id": made["certificate_id"], "external_account_number": erased}
    with supplier.Session() as session:
        leaf = session.scalars(select(CertificateLeaf).filter_by(**keys)).one()
        assert leaf.entry is None
    for number in set(numbers) - {erased}:
        assert _verify(tmp_path, _file(supplier, made, number)).exit_code == 0


def test_a_wave_is_certified_with_who_approved_it(waves: WaveClient, tmp_path: Path) -> None:
    supplier = waves.supplier
    waves.stage(3)
    plan = waves.plan({"rest": True})
    assert waves.act(plan, 1, "start").status_code == 200
    waves.run()
    approved = waves.act(plan, 1, "approve", reason="Seen.", by="Ada")
    made = _make(supplier, wave={"plan_id": plan["plan_id"], "number": 1})
    assert (made["batch_id"], made["accounts"]) == (plan["waves"][0]["batch_id"], 3), approved.text
    content = _file(supplier, made)
    assert _verify(tmp_path, content).exit_code == 0
    parts = {it["part"]: it for it in map(parse_json, content.splitlines()[2:8])}
    (wave,) = parts["approvals"]["waves"]
    assert (wave["decided_by"], wave["decision_reason"], wave["state"]) == ("Ada", "Seen.", "APPROVED")
    assert parts["owners"]["accounts"] == {"new": 0, "old": 3}


def test_a_batch_is_certified_without_the_accounts_of_others(
    batches: BatchClient, small: None, tmp_path: Path
) -> None:
    supplier = batches.supplier
    accounts = supplier.accounts(3)
    batch_id = batches.run(accounts[:2])["batch_id"]
    batches.run([*accounts[2:], b"{"])
    supplier.reconcile(f"?batch={batch_id}")
    made = _make(supplier, batch=batch_id)
    (file,) = parse_json(_file(supplier, made).splitlines()[3])["files"]
    assert (file["file"]["batch_id"], file["results"]) == (batch_id, {"IMPORTED": 2})
    assert (made["batch_id"], made["accounts"], made["clean"]) == (batch_id, 2, True)
    another = _make(supplier, batch=batch_id)
    listed = [
        [it["certificate_id"] for it in page]
        for page in supplier.pages(f"{_AT}?limit=1&import_supplier={supplier.code}")
    ]
    assert listed == [[another["certificate_id"]], [made["certificate_id"]]]
    assert _verify(tmp_path, _file(supplier, made)).exit_code == 0
    missing = supplier.get(
        f"{_AT}{made['certificate_id']}/accounts/{accounts[2]['external_account_number']}/"
    )
    assert (missing.status_code, parse_json(missing.data)["errors"][0]["code"]) == (404, "account_not_found")


def test_a_hundred_thousand_accounts_are_streamed_in_constant_memory(
    batches: BatchClient, small: None, tmp_path: Path
) -> None:
    supplier = batches.supplier
    batches.run(supplier.accounts(1))
    supplier.reconcile()
    made = _make(supplier)
    leaf = parse_json(_file(supplier, made).splitlines()[-1])["leaf"]
    more = insert(CertificateLeaf).from_select(
        ["certificate_id", "number", "external_account_number", "leaf"],
        select(
            literal(UUID(made["certificate_id"])), column("n"), literal("1"), literal(bytes.fromhex(leaf))
        ).select_from(func.generate_series(2, 100_000).alias("n")),
    )
    with supplier.Session.begin() as session:
        session.execute(more)
        certificate = session.get_one(Certificate, UUID(made["certificate_id"]))
        certificate.accounts = 100_000
    tracemalloc.start()
    try:
        lines = sum(piece.count(b"\n") for piece in stream_certificate(supplier.Session, certificate))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines == 2 + len(format_.PARTS) + 100_000
    assert peak < 2_000_000  # a quarter of the file


def test_what_cannot_be_certified_is_refused(batches: BatchClient) -> None:
    supplier = batches.supplier
    another = SupplierClient.create(supplier.app, supplier.Session)

    def code_of(answer: Any) -> tuple[int, str]:
        return answer.status_code, parse_json(answer.data)["errors"][0]["code"]

    body = {"import_supplier": supplier.code}
    assert code_of(supplier.post(_AT, body)) == (400, "certificate_state_conflict")
    assert code_of(supplier.post(_AT, {"import_supplier": another.code}))[0] == 400
    both = body | {"batch": str(UUID(int=1)), "wave": {"plan_id": str(UUID(int=1)), "number": 1}}
    assert code_of(supplier.post(_AT, both)) == (400, "invalid")
    batches.run(supplier.accounts(1))
    supplier.reconcile()
    first, second = (parse_json(supplier.post(_AT, body).data) for _ in range(2))
    assert first["certificate_id"] == second["certificate_id"]
    at = f"{_AT}{first['certificate_id']}/"
    assert code_of(supplier.get(f"{at}file/")) == (400, "certificate_state_conflict")
    assert code_of(supplier.get(f"{at}accounts/1/")) == (400, "certificate_state_conflict")
    assert code_of(another.get(at)) == (404, "certificate_not_found")
    assert code_of(supplier.get(f"{_AT}nonsense/")) == (404, "certificate_not_found")
    own = f"{_AT}?import_supplier={supplier.code}"
    assert [it["certificate_id"] for page in supplier.pages(own) for it in page] == [first["certificate_id"]]

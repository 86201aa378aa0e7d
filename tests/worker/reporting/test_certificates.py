"""Certificates hold without the service, and are streamed (the rest: transcripts/rest/certificates.md)."""

import tracemalloc
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import column, func, insert, literal, select

from migration_payloads.files import certificates as format_
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.models import Certificate, CertificateLeaf
from migration_service.services.certificates import making
from migration_service.services.certificates.reading import stream_certificate
from migration_service_client.command import main
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient
from support.undo_client import work_off

pytestmark = pytest.mark.usefixtures("neighbour")

_AT = "/certificates/"


def _make(supplier: SupplierClient) -> dict[str, Any]:
    """Start a certificate, do the workers' work, and return what is known of it."""
    answer = supplier.post(_AT, {"import_supplier": supplier.code, "by": "Grace"})
    assert answer.status_code == 202, answer.text
    with supplier.app.app_context():
        key = supplier.app.extensions["migration_service"].settings.certificate_key
    started = parse_json(answer.data)["certificate_id"]
    work_off(supplier.Session, lambda session, it: making.certify_piece(session, it, key), UUID(started))
    made: dict[str, Any] = parse_json(supplier.get(f"{_AT}{started}/").data)
    return made


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


def test_a_certificate_and_the_proof_of_each_account_hold_without_the_service(
    batches: BatchClient, small: None, tmp_path: Path
) -> None:
    supplier = batches.supplier
    accounts = supplier.accounts(5)
    numbers = [it["external_account_number"] for it in accounts]
    batches.run(accounts)
    supplier.reconcile()
    made = _make(supplier)
    assert (made["accounts"], made["clean"], made["requested_by"]) == (5, True, "Grace")
    whole = _file(supplier, made)
    found = _verify(tmp_path, whole, "--key", made["public_key"])
    assert (found.exit_code, found.output.count("holds")) == (0, 1), found.output
    assert not any(number.encode() in whole for number in numbers)
    receipt = parse_json(whole.splitlines()[2])
    assert (receipt["clean"], receipt["is_of_all_compared"], receipt["sent"]["created"]) == (True, True, 5)
    for account in accounts:
        sent = tmp_path / "sent.ndjson"
        sent.write_bytes(encode_json(account))
        proof = _file(supplier, made, account["external_account_number"])
        assert not any(it.encode() in proof for it in numbers if it != account["external_account_number"])
        found = _verify(tmp_path, proof, "--sent", str(sent))
        assert "What was created is what was sent." in found.output, found.output
        sent.write_bytes(encode_json(account | {"unknown_occupier": True}))
        assert _verify(tmp_path, proof, "--sent", str(sent)).exit_code == 1


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

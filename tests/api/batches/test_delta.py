"""What a supplier sends after `migration-client delta` leads to what sending the whole book leads to."""

from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import AccountImportProcess
from migration_service_client.command import main
from migration_service_local.samples import generate_accounts
from support.batch_client import BatchClient, counts, ndjson
from support.supplier_client import SupplierClient


def staged(sessions: sessionmaker[Session], supplier: SupplierClient) -> dict[str, Any]:
    imports = AccountImportProcess
    query = select(imports.external_account_number, imports.payload).where(
        imports.import_supplier_id == supplier.known().id
    )
    with sessions() as session:
        return {it.external_account_number: it.payload for it in session.execute(query)}


def test_sending_what_changed_and_what_is_new_stages_the_whole_book(
    batches: BatchClient, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    supplier = batches.supplier
    old = supplier.accounts(100)
    new = [it | {"billing_address2": "1 A"} if n % 20 == 7 else it for n, it in enumerate(old)]
    # What did not change is spelled in another way.
    new = [dict(reversed(it.items())) for it in new]
    new += generate_accounts(5, supplier=supplier.code, seed=99_999)
    (tmp_path / "old").write_bytes(ndjson(old))
    (tmp_path / "new").write_bytes(ndjson(new))
    parts = tmp_path / "parts"
    arguments = ["delta", str(tmp_path / "old"), str(tmp_path / "new"), "-o", str(parts)]
    assert CliRunner().invoke(main, arguments).exit_code == 1
    batches.run(old, "stage")
    sent = [(parts / f"{name}.ndjson").read_bytes().splitlines() for name in ("changed", "new")]
    assert [len(lines) for lines in sent] == [5, 5]
    assert counts(batches.run(sent[0] + sent[1], "stage")) == {"STAGED": 10}
    after_parts = staged(sessions, supplier)
    batches.run([msgspec.json.encode(it) for it in new], "stage")
    assert staged(sessions, supplier) == after_parts
    assert len(after_parts) == 105

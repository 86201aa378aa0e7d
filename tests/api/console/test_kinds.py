"""Files of every kind in the console: notes, transactions, statements and payment instructions."""

import socket
from hashlib import sha256
from io import BytesIO
from typing import Any

from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup.vendors import create_payment_vendor
from support.batch_client import BatchClient, counts, ndjson
from support.console_client import ConsoleClient
from support.imported_account import ImportedAccount
from support.messages import noted_messages


def test_an_upload_says_that_its_batch_has_begun_and_tells_workers_at_once(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    path = f"/suppliers/{batches.supplier.code}/upload/"
    (account,) = batches.supplier.accounts(1)
    for headers, status, name in (({}, 303, "n" * 200), ({"X-Upload": "1"}, 201, "")):
        book = ndjson([account])
        file = (BytesIO(book), "f" * 300)
        form = {**administrator.tokens(path), "step": "validate", "name": name, "file": file}
        with noted_messages() as messages:
            answer = administrator.client.post(f"/console{path}", data=form, headers=headers)
        assert answer.status_code == status
        batch_id = answer.location.split("/")[-2]
        assert answer.location == f"/console/batches/{batch_id}/"
        assert messages == [("batches.run_chunk", (batch_id, 1))]
        assert "The file has arrived, and its batch has started." in administrator.see(
            f"/batches/{batch_id}/"
        )
        report = batches.get(batch_id)
        assert (report["name"], report["file_name"]) == (name[:128] or None, "f" * 255)
        assert (report["file_sha256"], report["file_bytes"]) == (sha256(book).hexdigest(), len(book))


def _note(account: ImportedAccount, body: str = "Calls after six.") -> dict[str, Any]:
    return account.pair | {"notes": [{"body": body}]}


def test_lines_that_wait_are_named_and_listed(administrator: ConsoleClient, batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    coming = batches.start([account])
    late = ImportedAccount(batches.supplier, account["external_account_number"])
    batches.change(coming, "pause")
    waiting = batches.run([_note(late)], kind="notes")["batch_id"]
    assert counts(batches.get(waiting)) == {"DEFERRED": 1}
    page = administrator.see(f"/batches/{waiting}/")
    assert "1 line waits" in page
    assert "0 of 1 done" in page
    assert "Next try: " in page
    assert "waits for vendor" not in administrator.see("/")
    lines = administrator.see(f"/batches/{waiting}/lines/?status=DEFERRED")
    assert late.number in lines
    assert "1 remaining line will wait" in administrator.see(f"/batches/{waiting}/pause/")


def test_a_batch_that_waits_for_a_vendor_names_it(
    administrator: ConsoleClient, batches: BatchClient, account: ImportedAccount
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with batches.supplier.Session.begin() as session:
        create_payment_vendor(session, "nobody listens", kind=VendorKind.HTTP, url=url)
    line = account.pair | {"vendor": "nobody listens", "reference": "card-1", "type": "CARD"}
    waiting = batches.run([line], kind="payment-instructions")["batch_id"]
    page = administrator.see(f"/batches/{waiting}/")
    assert "Vendor: nobody listens. Next try: " in page
    assert "makes no progress" not in page
    assert "waits for vendor nobody listens." in administrator.see("/")

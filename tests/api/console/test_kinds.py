"""Files of every kind in the console: notes, transactions, statements and payment instructions."""

from hashlib import sha256
from io import BytesIO

from support.batch_client import BatchClient, ndjson
from support.console_client import ConsoleClient
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

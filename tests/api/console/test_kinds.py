"""Files of every kind in the console: notes, transactions, statements and payment instructions."""

import re
import socket
from hashlib import sha256
from io import BytesIO
from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.schemas.coded import example_of
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.schemas import added_data
from migration_service.services.setup.vendors import create_payment_vendor
from support.audit import audited
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


def test_a_second_delivery_replaces_accounts_that_differ(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account])
    newer = ndjson([account | {"billing_address1": "Keizersgracht 1"}])
    fields = {"kind": "accounts", "team": batches.supplier.team, "replace": "y"}
    refused = administrator.upload(batches.supplier.code, newer, step="validate", **fields)
    assert (refused.status_code, "Only accounts that are imported" in refused.text) == (400, True)
    for step, status in (("dry-run", "WOULD_REPLACE"), ("import", "REPLACED")):
        sent = administrator.upload(batches.supplier.code, newer, step=step, **fields)
        batch_id = sent.location.split("/")[-2]
        batches.work()
        assert counts(batches.get(batch_id)) == {status: 1}
        assert status in administrator.see(f"/batches/{batch_id}/")


def test_control_totals_come_with_the_file(administrator: ConsoleClient, batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(2)
    for kind, given, status, said in (
        ("accounts", '{"accounts": 3}', 303, ""),
        ("accounts", " ", 303, ""),
        ("accounts", '{"acounts": 3}', 400, "did you mean accounts"),
        ("accounts", "{", 400, "not valid JSON"),
        ("notes", '{"accounts": 3}', 400, "Only a file of accounts has control totals."),
    ):
        fields = {"kind": kind, "step": "validate", "control_totals": given}
        answer = administrator.upload(batches.supplier.code, ndjson(accounts), **fields)
        assert said in answer.text
        assert answer.status_code == status
        if status == 303:
            report = batches.get(answer.location.split("/")[-2])
            assert report["control_totals_differing"] == (1 if given.strip() else None)
        else:
            assert re.search(r'id="control_totals-help">.*?text-danger', answer.text, re.DOTALL)


def _note(account: ImportedAccount, body: str = "Calls after six.") -> dict[str, Any]:
    return account.pair | {"notes": [{"body": body}]}


def test_notes_are_checked_rehearsed_and_added(
    administrator: ConsoleClient,
    batches: BatchClient,
    account: ImportedAccount,
    sessions: sessionmaker[Session],
) -> None:
    lines = [_note(account), {**_note(account), "notes": []}]
    answer = administrator.upload(batches.supplier.code, ndjson(lines), kind="notes", step="validate")
    assert answer.status_code == 303, answer.text
    batch_id = answer.location.split("/")[-2]
    batches.work()
    page = administrator.see(f"/batches/{batch_id}/")
    assert "<dd>notes</dd>" in page
    assert "Undo the imports" not in page
    for mode, sentence, status in (
        ("dry-run", "2 lines are added and rolled back", "WOULD_ADD"),
        ("import", "2 lines are added to their accounts", "ADDED"),
    ):
        path = f"/batches/{batch_id}/repeat/{mode}/"
        assert path in administrator.see(f"/batches/{batch_id}/")
        text = administrator.see(path)
        assert sentence in text
        assert 'name="team"' not in text
        batch_id = administrator.send(path).location.split("/")[-2]
        batches.work()
        assert counts(batches.get(batch_id)) == {status: 1, "FAILED": 1}
        assert f"{status} <b>1</b>" in administrator.see(f"/batches/{batch_id}/")
    (entry,) = audited(sessions, action="batch.ordered", subject=batch_id)
    assert entry.details == {"mode": "import", "kind": "notes"}


def test_what_a_line_adds_is_masked(
    administrator: ConsoleClient, batches: BatchClient, account: ImportedAccount
) -> None:
    batch_id = batches.run([_note(account, "Ask for Kees.")], kind="notes")["batch_id"]
    assert "Kees" not in administrator.see(f"/batches/{batch_id}/lines/1/")
    administrator.send(f"/batches/{batch_id}/lines/1/reveal/", page=f"/batches/{batch_id}/lines/1/")
    assert "Ask for Kees." in administrator.see(f"/batches/{batch_id}/lines/1/")


def test_boxes_that_are_cleared_are_options_of_transactions(
    administrator: ConsoleClient, batches: BatchClient, account: ImportedAccount
) -> None:
    lines, fields = (
        [example_of(added_data.TransactionsRequestSchema) | account.pair],
        {"kind": "transactions", "step": "dry-run"},
    )
    boxes = {"check_previously_added": "1", "force_add_to_current_statement": "1"}
    answer = administrator.upload(batches.supplier.code, ndjson(lines), **fields, **boxes)
    assert batches.get(answer.location.split("/")[-2])["options"] == {}
    cleared = administrator.upload(batches.supplier.code, ndjson(lines), **fields, check_previously_added="1")
    batch_id = cleared.location.split("/")[-2]
    batches.work()
    assert batches.get(batch_id)["options"] == {"force_add_to_current_statement": False}
    assert "force_add_to_current_statement" in administrator.see(f"/batches/{batch_id}/")
    # The next step asks for the same.
    repeated = administrator.send(f"/batches/{batch_id}/repeat/import/").location.split("/")[-2]
    assert batches.get(repeated)["options"] == {"force_add_to_current_statement": False}
    assert batches.get(repeated)["kind"] == "transactions"


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


def test_batches_are_filtered_by_kind_and_by_state(
    administrator: ConsoleClient, batches: BatchClient, account: ImportedAccount
) -> None:
    code = batches.supplier.code
    notes = batches.run([_note(account)], kind="notes")["batch_id"]
    accounts = batches.start(batches.supplier.accounts(3)[2:])
    for query, shown, hidden in (
        ("kind=notes", notes, accounts),
        ("kind=accounts&state=RUNNING", accounts, notes),
        ("state=COMPLETED", notes, accounts),
    ):
        text = administrator.see(f"/batches/?supplier={code}&{query}")
        assert shown in text
        assert hidden not in text
    assert "There is no such batch." in administrator.see(f"/batches/?supplier={code}&kind=statements")
    assert notes in administrator.see(f"/batches/?supplier={code}&kind=nothing&state=")

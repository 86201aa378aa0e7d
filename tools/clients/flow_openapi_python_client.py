"""The whole migration through the client that openapi-python-client generates."""

import io
import json
import os
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from account_migration_import_service_client import AuthenticatedClient, Client, models
from account_migration_import_service_client.api.access import obtain_token
from account_migration_import_service_client.api.account_imports import (
    process_account,
    stage_account,
    validate_account,
)
from account_migration_import_service_client.api.added_data import (
    create_historical_statements,
    create_notes,
    create_payment_instruction,
    create_transactions,
)
from account_migration_import_service_client.api.attempts import get_attempt
from account_migration_import_service_client.api.batches import get_batch, get_batch_results, start_batch
from account_migration_import_service_client.api.reconciliation import get_id_map, reconcile_import_supplier
from account_migration_import_service_client.api.status_and_lists import (
    list_all_account_imports,
)
from account_migration_import_service_client.types import UNSET, File

ADDRESS = os.environ["SERVICE_ADDRESS"]
API_KEY = os.environ["SERVICE_API_KEY"]
#: supplier, team, vendor, accounts (two for requests, two for the batch).
ORDER: dict[str, Any] = json.loads(Path(os.environ["SERVICE_ORDER"]).read_text(encoding="utf-8"))

MUTATION = (
    "mutation ($input: ObtainServiceTokenInput!) { obtainServiceToken(input: $input) "
    "{ token refreshToken refreshExpiresIn } }"
)
TOKEN_REQUEST = {"query": MUTATION, "variables": {"input": {"APIKey": API_KEY}}}
FIRST, SECOND, *BATCH = ORDER["accounts"]
PAIR = {
    "import_supplier": ORDER["supplier"],
    "external_account_number": FIRST["external_account_number"],
}
NDJSON = "".join(json.dumps(account) + "\n" for account in BATCH).encode()


def process_body(account: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
    """Return the body of a process request."""
    return {
        "import_supplier_code": ORDER["supplier"],
        "external_account_number": account["external_account_number"],
        "operations_team_name": ORDER["team"],
        "dry_run": dry_run,
    }


SUPPLIER = ORDER["supplier"]

answer = obtain_token.sync(client=Client(base_url=ADDRESS), body=models.TokenRequest.from_dict(TOKEN_REQUEST))
client = AuthenticatedClient(base_url=ADDRESS, token=answer.data.obtain_service_token.token)

for account in (FIRST, SECOND):
    payload = models.AccountImport.from_dict(account)
    valid = validate_account.sync(client=client, body=payload)
    assert isinstance(valid, models.AccountImport), valid
    staged = stage_account.sync(client=client, body=payload)
    assert isinstance(staged, models.StagedAccount), staged

rehearsed = process_account.sync(
    client=client, body=models.ProcessRequest.from_dict(process_body(FIRST, dry_run=True))
)
assert isinstance(rehearsed, models.AccountErrorBody), rehearsed
assert rehearsed.code == "dry_run_succeeded", rehearsed
created = process_account.sync(client=client, body=models.ProcessRequest.from_dict(process_body(FIRST)))
assert isinstance(created, models.CreatedAccount), created
again = process_account.sync(client=client, body=models.ProcessRequest.from_dict(process_body(FIRST)))
assert again.service_account_number == created.service_account_number, again

accepted = process_account.sync(
    client=client, body=models.ProcessRequest.from_dict(process_body(SECOND)), prefer="respond-async"
)
assert isinstance(accepted, models.AcceptedAccount), accepted
# The outcome of an asynchronous attempt.
state = None
while state != "FINISHED":
    time.sleep(0.2)
    attempt = get_attempt.sync(accepted.attempt_id, client=client)
    state = attempt.state
assert attempt.outcome == "SUCCEEDED", attempt

listed, cursor = [], UNSET
while True:
    page = list_all_account_imports.sync_detailed(SUPPLIER, client=client, limit=1, cursor=cursor)
    listed += page.parsed
    if "Link" not in page.headers:
        break
    address = re.match("<(.*)>", page.headers["Link"])[1]
    cursor = parse_qs(urlsplit(address).query)["cursor"][0]
assert len(listed) == 2, listed
assert all(item.service_account_number for item in listed), listed

notes = create_notes.sync(client=client, body=models.NotesRequest.from_dict(PAIR | ORDER["notes"]))
assert [note.status for note in notes] == ["NOTE_CREATION_SUCCESS"] * 2, notes
transactions = create_transactions.sync(
    client=client, body=models.TransactionsRequest.from_dict(PAIR | ORDER["transactions"])
)
assert isinstance(transactions, models.TransactionResults), transactions
statements = create_historical_statements.sync(
    client=client, body=models.StatementsRequest.from_dict(PAIR | ORDER["statements"])
)
assert isinstance(statements, models.StatementsRequest), statements
instruction = create_payment_instruction.sync(
    client=client, body=models.PaymentInstructionRequest.from_dict(PAIR | ORDER["payment_instruction"])
)
assert isinstance(instruction, models.PaymentInstructionResult), instruction

batch = start_batch.sync(
    client=client,
    body=File(payload=io.BytesIO(NDJSON)),
    import_supplier=SUPPLIER,
    mode=models.StartBatchMode("import"),
    operations_team_name=ORDER["team"],
    idempotency_key=f"{SUPPLIER}-1",
)
assert isinstance(batch, models.BatchProgressAnswer), batch
while batch.state != "COMPLETED":
    time.sleep(0.2)
    batch = get_batch.sync(batch.batch_id, client=client)
assert batch.counts.additional_properties["IMPORTED"] == len(BATCH), batch
results = get_batch_results.sync_detailed(batch.batch_id, client=client)
assert len(results.content.splitlines()) == len(BATCH), results

reconciled = reconcile_import_supplier.sync(SUPPLIER, client=client)
assert reconciled.clean, reconciled
assert len(get_id_map.sync_detailed(SUPPLIER, client=client).content.splitlines()) == 5

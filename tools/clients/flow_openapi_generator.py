"""The whole migration through the Python client that openapi-generator generates."""

import re
import time
from urllib.parse import parse_qs, urlsplit

import generated_client as generated
from generated_client.exceptions import ApiException
from order import (
    ADDRESS,
    BATCH,
    FIRST,
    NDJSON,
    ORDER,
    PAIR,
    SECOND,
    TOKEN_REQUEST,
    process_body,
)

SUPPLIER = ORDER["supplier"]

configuration = generated.Configuration(host=ADDRESS)
client = generated.ApiClient(configuration)
answer = generated.AccessApi(client).obtain_token(generated.TokenRequest.from_dict(TOKEN_REQUEST))
configuration.api_key["Token"] = answer.data.obtain_service_token.token
configuration.api_key_prefix["Token"] = "Token"

imports = generated.AccountImportsApi(client)
attempts = generated.AttemptsApi(client)
progress = generated.StatusAndListsApi(client)
added = generated.AddedDataApi(client)
batches = generated.BatchesApi(client)
reconciliation = generated.ReconciliationApi(client)


def refusal(body):
    """Return the error of a process request."""
    try:
        unexpected = imports.process_account(generated.ProcessRequest.from_dict(body))
    except ApiException as error:
        return error.data
    raise AssertionError(unexpected)


for account in (FIRST, SECOND):
    payload = generated.AccountImport.from_dict(account)
    # The generated client tells whether it is the account or the full report.
    valid = imports.validate_account(payload).actual_instance
    assert valid.external_account_number == account["external_account_number"], valid
    staged = imports.stage_account(payload).actual_instance
    assert staged.import_supplier == SUPPLIER, staged

rehearsed = refusal(process_body(FIRST, dry_run=True))
assert rehearsed.code == "dry_run_succeeded", rehearsed
created = imports.process_account(generated.ProcessRequest.from_dict(process_body(FIRST)))
assert isinstance(created, generated.CreatedAccount), created
again = refusal(process_body(FIRST))
assert again.service_account_number == created.service_account_number, again

accepted = imports.process_account_with_http_info(
    generated.ProcessRequest.from_dict(process_body(SECOND)), prefer="respond-async"
)
assert accepted.status_code == 202, accepted
# The outcome of an asynchronous attempt.
state = None
while state != "FINISHED":
    time.sleep(0.2)
    attempt = attempts.get_attempt(accepted.data.attempt_id)
    state = attempt.state
assert attempt.outcome == "SUCCEEDED", attempt

listed, cursor = [], None
while True:
    page = progress.list_all_account_imports_with_http_info(SUPPLIER, limit=1, cursor=cursor)
    listed += page.data
    headers = {name.lower(): value for name, value in page.headers.items()}
    if "link" not in headers:
        break
    address = re.match("<(.*)>", headers["link"])[1]
    cursor = parse_qs(urlsplit(address).query)["cursor"][0]
assert len(listed) == 2, listed
assert all(item.service_account_number for item in listed), listed

notes = added.create_notes(generated.NotesRequest.from_dict(PAIR | ORDER["notes"]))
# Answers have two shapes: these, and the report that a parameter asks for.
assert [note.status for note in notes.actual_instance] == ["NOTE_CREATION_SUCCESS"] * 2, notes
transactions = added.create_transactions(
    generated.TransactionsRequest.from_dict(PAIR | ORDER["transactions"])
)
assert len(transactions.actual_instance.results) == 2, transactions
added.create_historical_statements(generated.StatementsRequest.from_dict(PAIR | ORDER["statements"]))
instruction = added.create_payment_instruction(
    generated.PaymentInstructionRequest.from_dict(PAIR | ORDER["payment_instruction"])
)
assert instruction.actual_instance.service_account_number == created.service_account_number, instruction

batch = batches.start_batch(
    SUPPLIER,
    "import",
    operations_team_name=ORDER["team"],
    idempotency_key=f"{SUPPLIER}-1",
    body=NDJSON,
)
while batch.state != "COMPLETED":
    time.sleep(0.2)
    batch = batches.get_batch(batch.batch_id)
assert batch.counts["IMPORTED"] == len(BATCH), batch
results = batches.get_batch_results_without_preload_content(batch.batch_id)
assert len(results.read().splitlines()) == len(BATCH)

assert reconciliation.reconcile_import_supplier(SUPPLIER).clean
assert len(reconciliation.get_id_map(SUPPLIER).splitlines()) == 5

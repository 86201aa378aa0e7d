"""The JSON examples of docs/suppliers are sent to the service, and its answers are compared with them.

tests/e2e/test_docs.py runs the shell commands of the quickstart.
"""

import json
import re
from typing import Any

import pytest

from documentation.pages import ROOT
from migration_service.blueprints.requests.errors import RETRY_LATER_CODES
from migration_service.db.base import new_id
from migration_service.services.events.history import cursor_writer, follow_history
from migration_service.services.events.reading import Position
from migration_service.services.setup.limits import set_concurrency_limit
from migration_service.states import SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import json_of
from support.imported_account import code_of, codes_of
from support.supplier_client import API, SupplierClient

_FOLDER = ROOT / "docs/suppliers"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(page: str, language: str) -> list[str]:
    return [block for found, block in _BLOCK.findall((_FOLDER / page).read_text()) if found == language]


def _table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its first two lines."""
    section = (_FOLDER / page).read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]


@pytest.fixture
def payload(supplier: SupplierClient) -> dict[str, Any]:
    """A valid account with two customers."""
    (account,) = supplier.accounts()
    first = account["customers"][0]
    account["customers"] = [first, {"given_name": "Bram", "family_name": "Jansen"}]
    return account


def test_every_json_example_is_sent_by_a_test_of_this_module() -> None:
    pages = {page.name for page in _FOLDER.glob("*.md") if _blocks(page.name, "json")}
    assert pages == {"errors.md", "events.md", "undo.md", "validation.md", "your-data.md"}
    assert [len(_blocks(page, "json")) for page in sorted(pages)] == [1, 1, 2, 1, 1]


def test_the_example_of_the_mutation_obtains_a_token(supplier: SupplierClient) -> None:
    blocks = _blocks("authentication.md", "sh")
    sent = [block.partition("<<END\n")[2].partition("\nEND")[0].replace("\\$", "$") for block in blocks]
    first, renewal = filter(None, sent)
    body = json.loads(first.replace('"API_KEY"', json.dumps(supplier.api_key)))
    answer = supplier.app.test_client().post("/v1/graphql/", json=body)
    tokens = json_of(answer)["data"]["obtainServiceToken"]
    documented = {row[0].strip("`") for row in _table("authentication.md", "Obtain a token")}
    assert set(tokens) == documented - {"payload"}

    (header,) = [it for it in _blocks("authentication.md", "sh") if "Authorization" in it]
    name, value = header.split('"')[1].replace("TOKEN", tokens["token"]).split(": ")
    listed = supplier.app.test_client().get(f"{API}/import-suppliers/", headers={name: value})
    assert listed.status_code == 200

    again = json.loads(renewal.replace('"REFRESH_TOKEN"', json.dumps(tokens["refreshToken"])))
    renewed = json_of(supplier.app.test_client().post("/v1/graphql/", json=again))
    assert set(renewed["data"]["obtainServiceToken"]) == set(tokens)


def test_the_example_of_an_error_is_the_answer_to_a_wrong_telephone_number(
    supplier: SupplierClient, payload: dict[str, Any]
) -> None:
    (block,) = _blocks("errors.md", "json")
    payload["customers"][1]["landline"] = "012"
    answer = supplier.validate(payload)
    assert answer.status_code == 400
    assert json_of(answer) == json.loads(block)


def test_the_example_of_a_suggestion_is_in_the_answer_to_a_dutch_date(
    supplier: SupplierClient, payload: dict[str, Any]
) -> None:
    (block,) = _blocks("validation.md", "json")
    payload["supply_addresses"][0]["customer_at_supply_address_from_date"] = "31-12-1980"
    assert json_of(supplier.validate(payload))["errors"] == [json.loads(block)]


def test_the_line_of_a_book_passes_every_rule(supplier: SupplierClient) -> None:
    (block,) = _blocks("your-data.md", "json")
    account = json.loads(block) | {"import_supplier": supplier.code}
    report = json_of(supplier.validate(account, query_string={"report": "full", "profile": "strict"}))
    assert (report["valid"], report["warnings"]) == (True, [])


def test_the_example_of_a_cursor_is_the_answer_if_its_event_does_not_exist(supplier: SupplierClient) -> None:
    (block,) = _blocks("events.md", "json")
    shown = json.loads(block)
    with supplier.Session.begin() as session:
        write = cursor_writer(follow_history(session), supplier.organisation_id())
    answer = supplier.get("/events/", query_string={"cursor": write(Position(0, 2**40, new_id()))})
    # Nothing is left that a reader has certainly seen.
    assert (answer.status_code, json_of(answer)) == (400, shown | {"cursor": "start"})


def test_the_page_about_retries_names_each_400_that_may_be_sent_again() -> None:
    rows = _table("retries.md", "What to do with each status")
    [row] = [meaning for status, meaning in rows if "Retry-After" in status]
    assert re.findall("`([a-z_]+_in_progress)`", row) == [*RETRY_LATER_CODES]


def test_the_full_report_has_the_members_that_the_page_shows(
    supplier: SupplierClient, payload: dict[str, Any]
) -> None:
    rows = _table("validation.md", "Seeing the warnings")
    shown = next(cell.strip("`") for request, cell in rows if "?report=full" in request)
    documented = json.loads(shown.replace("[...]", "[]").replace("{...}", "{}"))
    payload["surprise"] = 1
    report = json_of(supplier.validate(payload, query_string={"report": "full"}))
    assert set(report) == set(documented)
    assert (report["valid"], report["errors"]) == (documented["valid"], documented["errors"])
    assert [warning["code"] for warning in report["warnings"]] == ["unknown_field"]
    assert report["account"]["external_account_number"] == payload["external_account_number"]


def test_every_answer_that_the_page_about_testing_provokes_is_given(
    supplier: SupplierClient, worker_resources: WorkerResources, payload: dict[str, Any]
) -> None:
    documented = [row[0].replace("`", "") for row in _table("testing.md", "Provoking an answer")]
    number = payload["external_account_number"]
    given = []

    first, again = supplier.stage(payload), supplier.stage(payload)
    given.append(f"{first.status_code} from staging, then {again.status_code}")

    faulty = payload | {"customers": [payload["customers"][1] | {"email": "nobody"}]}
    refused = supplier.stage(faulty)
    assert [path for path, _ in codes_of(refused)] == ["customers.0.email"]
    given.append(code_of(refused))

    supplier.process(number, dry_run=True)
    attempt = supplier.work(worker_resources, number)
    given.append(json_of(supplier.get(f"/account-import-attempts/{attempt}/"))["error"]["code"])

    accepted = supplier.process(number)
    supplier.work(worker_resources, number)
    given.append(code_of(supplier.process(number)))
    assert accepted.headers["Location"].startswith(f"{API}/account-import-attempts/")
    given.append(f"{accepted.status_code} with Location")

    _, *others = supplier.accounts(3)
    for account in others:
        assert supplier.stage(account).status_code == 201
    with supplier.Session.begin() as session:
        set_concurrency_limit(session, 1)
    one, other = (supplier.process(account["external_account_number"]) for account in others)
    assert one.status_code == 202
    given.append(code_of(other))

    supplier.set_status(SupplierStatus.PAUSED)
    given.append(code_of(supplier.stage(supplier.accounts(5)[4])))
    assert given == documented


def test_the_examples_of_an_undo_start_one(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    batches = BatchClient(supplier, worker_resources)
    batch_id = batches.run(supplier.accounts(1))["batch_id"]
    (line,) = batches.results(batch_id)
    real = {
        "import_supplier": supplier.code,
        "external_account_numbers": [line["external_account_number"]],
        "batch": batch_id,
    }
    for block in _blocks("undo.md", "json"):
        example = json.loads(block)
        answer = supplier.post("/undos/", {name: real.get(name, value) for name, value in example.items()})
        assert answer.status_code == 202
        assert json_of(answer)["reason"] == example["reason"]

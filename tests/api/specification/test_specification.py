"""The requests of the specification, sent as documented, and the answers, compared member by member.

The exchanges are data. Each JSON file of this folder has those of one section of the specification, whose
number and name it gives. A request is sent as it is written there, except that names in angle brackets are
replaced by those of the test. `body_of` names the file whose first example has the same body. `given` lists
what is true before it is sent (`situation.py`). Nothing in an answer is ignored. Words in round brackets
stand for values that differ each time (`shapes.py`).
"""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from api.specification.shapes import differences
from api.specification.situation import FOLDER, GIVEN, Situation
from migration_payloads.schemas.json import parse_json
from migration_service.tasks.resources import WorkerResources
from support.servers import wait_until
from support.supplier_client import SupplierClient


def _exchanges() -> list[Any]:
    sections = [json.loads(file.read_text()) for file in sorted(FOLDER.glob("*.json"))]
    return [
        pytest.param(section, exchange, id=f"{section['section']} {section['about']}: {exchange['name']}")
        for section in sections
        for exchange in section["exchanges"]
    ]


@pytest.fixture
def situation(supplier: SupplierClient, worker_resources: WorkerResources, sandbox_url: str) -> Situation:
    names = {
        "import_supplier_code": supplier.code,
        "external_account_number": f"account {uuid4().hex[:12]}",
        "operations_team_name": supplier.team,
        "API_KEY": supplier.api_key,
        "ACCESS_TOKEN": supplier.token,
    }
    return Situation(supplier, worker_resources, sandbox_url, names)


@pytest.mark.parametrize(("section", "exchange"), _exchanges())
def test_the_answer_is_the_documented_one(
    situation: Situation, section: dict[str, Any], exchange: dict[str, Any]
) -> None:
    for given in exchange.get("given", []):
        GIVEN[given](situation)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(situation.send, section, exchange)
        if situation.is_at_work:
            wait_until(situation.is_in_progress, "the attempt began")
            situation.work()
        answer = asking.result()
    assert answer.status_code == exchange["status"], answer.text
    assert answer.mimetype == "application/json"
    found = list(differences(parse_json(answer.data), situation.shape(exchange)))
    assert not found, "\n".join(found)


def test_every_endpoint_of_the_specification_has_examples_of_success_and_of_failure() -> None:
    statuses: dict[str, set[int]] = {}
    for file in FOLDER.glob("4.*.json"):
        section = json.loads(file.read_text())
        statuses[section["section"]] = {exchange["status"] for exchange in section["exchanges"]}
    assert statuses == {
        "4.1": {200, 400},
        "4.2": {200, 201, 400},
        "4.3": {201, 400, 429},
        "4.4": {200, 404},
        "4.5": {200, 404},
        "4.6": {200, 404},
        "4.7": {200, 404},
        "4.8": {201, 400, 404},
        "4.9": {201, 400},
        "4.10": {201, 400},
        "4.11": {201, 400, 500},
    }

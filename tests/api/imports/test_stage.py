"""Sections 4.1 and 4.2: payloads that are sent at once, damaged, or beyond the quota."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings

from migration_service.blueprints.requests.resources import resources
from migration_service.connections import make_redis
from migration_service.services.imports.quota import (
    StagedQuota,
    find_full_organisations,
    note_full_organisations,
)
from migration_service.services.reporting.counts import count_accounts
from migration_service.states import ImportState
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, ndjson
from support.examples import TIMES
from support.imported_account import at_once, code_of
from support.mutations import damaged_accounts
from support.supplier_client import SupplierClient


def test_two_simultaneous_stagings_answer_201_and_200(supplier: SupplierClient) -> None:
    for account in supplier.accounts(10):
        answers = at_once(partial(supplier.stage, account))
        assert sorted(answer.status_code for answer in answers) == [200, 201]


@settings(
    max_examples=75 * TIMES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(damaged=damaged_accounts())
def test_a_damaged_account_is_answered_200_or_400(supplier: SupplierClient, damaged: Any) -> None:
    if isinstance(damaged, dict) and damaged.get("import_supplier") == "S":
        damaged = {**damaged, "import_supplier": supplier.code}
    body = json.dumps(damaged)
    answer = supplier.post("/validate-account/", data=body, content_type="application/json")
    assert answer.status_code in (200, 400), answer.get_data(as_text=True)
    assert supplier.stage(damaged).status_code in (200, 201, 400)
    if answer.status_code == 400:
        assert (answer.json or {})["errors"]


@contextmanager
def _counted(supplier: SupplierClient, resources_: WorkerResources, most: int) -> Iterator[StagedQuota]:
    """Count as maintenance does, and let the web process read the note at once."""
    with resources_.Session.begin() as session:
        counts = count_accounts(session)["accounts"]
        note_full_organisations(resources_.redis, find_full_organisations(session, counts, most))
    with supplier.app.app_context():
        quota = resources().staged_quota
    with patch.object(quota, "_read_at", -1e9):
        yield quota
    note_full_organisations(resources_.redis, [])
    quota._read_at, quota._full = -1e9, frozenset()


def test_beyond_the_quota_only_accounts_that_are_staged_already_are_staged(
    supplier: SupplierClient, another: SupplierClient, worker_resources: WorkerResources
) -> None:
    first, second, third = supplier.accounts(3)
    for account in (first, second):
        assert supplier.stage(account).status_code == 201
    (theirs,) = another.accounts(1)
    with _counted(supplier, worker_resources, most=2):
        refused = supplier.stage(third)
        assert (refused.status_code, code_of(refused)) == (429, "staged_quota_reached")
        assert int(refused.headers["Retry-After"]) >= 60
        assert supplier.stage(first | {"billing_address1": "Changed"}).status_code == 200
        assert another.stage(theirs).status_code == 201
        batches = BatchClient(supplier, worker_resources)
        refused = batches.post(ndjson([third]), "stage")
        assert (refused.status_code, code_of(refused)) == (429, "staged_quota_reached")
        assert batches.post(ndjson([third]), "import").status_code == 202
    with _counted(supplier, worker_resources, most=3):
        assert supplier.stage(third).status_code in (200, 201)


@pytest.mark.usefixtures("another")
@pytest.mark.parametrize(("most", "full"), [(2, True), (3, False)])
def test_the_accounts_of_all_suppliers_of_an_organisation_count(
    supplier: SupplierClient, worker_resources: WorkerResources, most: int, *, full: bool
) -> None:
    others = [[supplier.code, state, 9] for state in ImportState if state != ImportState.PENDING]
    counts = [[supplier.code, "PENDING", 2], *others, ["GONE", "PENDING", 9]]
    with worker_resources.Session.begin() as session:
        found = find_full_organisations(session, counts, most)
    assert found == ([supplier.organisation_id()] if full else [])


def test_without_redis_the_last_note_holds(worker_resources: WorkerResources) -> None:
    note_full_organisations(worker_resources.redis, [7])
    seconds = [100.0]
    quota = StagedQuota(worker_resources.redis, 5, clock=lambda: seconds[0])
    assert (quota.is_reached(7), quota.is_reached(8)) == (True, False)
    note_full_organisations(worker_resources.redis, [8])
    assert quota.is_reached(7), "the note is read every ten seconds"
    seconds[0] += 10
    assert (quota.is_reached(7), quota.is_reached(8)) == (False, True)
    seconds[0] += 10
    quota._redis = make_redis("redis://127.0.0.1:1/0")
    assert quota.is_reached(8)

"""Sections 3.1, 3.2, 4.1 and 4.2: payloads are checked and stored, within the quota, and reported on."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from sqlalchemy import update
from werkzeug.test import TestResponse

from migration_payloads.corrections.fixing import apply
from migration_payloads.errors import Suggestion
from migration_payloads.rules.catalogue import RULES_VERSION
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.blueprints.requests.resources import resources
from migration_service.connections import make_redis
from migration_service.models import AccountImportProcess
from migration_service.services.imports.quota import (
    StagedQuota,
    find_full_organisations,
    note_full_organisations,
)
from migration_service.services.imports.skipping import skip_accounts, unskip_accounts
from migration_service.services.reporting.counts import count_accounts
from migration_service.states import ImportState, SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, ndjson
from support.examples import TIMES
from support.factories import json_of
from support.imported_account import at_once, code_of, codes_of
from support.mutations import damaged_accounts
from support.supplier_client import SupplierClient


def test_two_simultaneous_stagings_answer_201_and_200(supplier: SupplierClient) -> None:
    for account in supplier.accounts(10):
        answers = at_once(partial(supplier.stage, account))
        assert sorted(answer.status_code for answer in answers) == [200, 201]


@pytest.mark.parametrize(
    ("other", "result"),
    [
        ({"b": [1.0, None], "a": {}}, "UNCHANGED"),
        ({"a": {}, "b": [1]}, "REPLACED"),
        ({"a": None, "b": [1, None]}, "REPLACED"),
        ({"b": [1, None]}, "REPLACED"),
        ({"a": {}, "b": [1, None], "c": ""}, "REPLACED"),
    ],
)
def test_within_the_data_of_a_statement_null_and_what_is_empty_count(
    supplier: SupplierClient, other: dict[str, Any], result: str
) -> None:
    [account] = supplier.accounts(1)
    account["statements"] = account["statements"][:1]
    account["statements"][0]["statement_pdf_context"] = {"a": {}, "b": [1, None]}
    supplier.stage(account)
    account["statements"][0]["statement_pdf_context"] = other
    answer = supplier.post("/account-import-process/create-or-update/", account)
    assert (answer.json or {})["result"] == result


def test_an_account_that_is_not_staged_is_skipped_without_a_process(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    with supplier.Session.begin() as session:
        for _ in range(2):
            skip_accounts(session, supplier.known().id, [number])
    for answer in (supplier.stage(account), supplier.process(number)):
        assert (answer.status_code, code_of(answer)) == (400, "account_marked_to_skip")
    supplier.set_status(SupplierStatus.PAUSED)
    for answer in (supplier.stage(account), supplier.process(number)):
        assert code_of(answer) == "account_marked_to_skip"
    supplier.set_status(SupplierStatus.ONGOING)
    assert supplier.status(number).status_code == 404
    assert supplier.get(f"/all-account-import-processes/{supplier.code}/").json == []
    batches = BatchClient(supplier, worker_resources)
    for mode in ("stage", "import"):
        assert batches.run([account], mode=mode)["counts"]["SKIPPED"] == 1
    assert supplier.status(number).status_code == 404
    with supplier.Session.begin() as session:
        unskip_accounts(session, supplier.known().id, [number])
    assert supplier.stage(account).status_code == 201
    assert supplier.process(number).status_code == 202


def test_staging_the_same_payload_after_a_change_of_the_rules_or_the_profile_records_them(
    supplier: SupplierClient,
) -> None:
    (account,) = supplier.accounts()
    supplier.stage(account)
    number = account["external_account_number"]
    with supplier.Session.begin() as session:
        older = {"rules_version": "older", "profile": "strict", "warnings": [{"code": "of older rules"}]}
        session.execute(update(AccountImportProcess).where(supplier.process_of(number)).values(**older))
    before = supplier.process_row(number).staged_at
    assert supplier.stage(account).status_code == 200
    row = supplier.process_row(number)
    assert (row.rules_version, row.profile, row.warnings) == (RULES_VERSION, "lenient", None)
    assert row.staged_at == before, "it is still the payload that was staged then"


def test_nothing_is_stored(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    supplier.validate(account)
    assert supplier.status(account["external_account_number"]).status_code == 404


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


_Send = Callable[..., TestResponse]


def _validate(supplier: SupplierClient, payload: Any, query: str = "") -> TestResponse:
    return supplier.post(f"/validate-account/{query}", payload)


def _stage(supplier: SupplierClient, payload: Any, query: str = "") -> TestResponse:
    return supplier.post(f"/account-import-process/create-or-update/{query}", payload)


@pytest.fixture
def payload(supplier: SupplierClient) -> dict[str, Any]:
    """A payload with one warning."""
    (account,) = supplier.accounts()
    return account | {"billing_postcode": "nowhere"}


@pytest.mark.parametrize(("send", "status", "more"), [(_validate, 200, set()), (_stage, 201, {"result"})])
def test_the_full_report_has_the_account_and_its_warnings(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send, status: int, more: set[str]
) -> None:
    validated = json_of(_validate(supplier, payload))
    answer = send(supplier, payload, "?report=full")
    assert answer.status_code == status
    report = json_of(answer)
    assert report.keys() == {"valid", "errors", "warnings", "account"} | more
    assert (report["valid"], report["errors"], report["account"]) == (True, [], validated)
    assert [(it["attr"], it["code"]) for it in report["warnings"]] == [
        ("billing_postcode", "invalid_postcode")
    ]
    assert answer.headers["X-Warning-Count"] == "1"


@pytest.mark.parametrize("send", [_validate, _stage])
def test_without_a_report_a_header_counts_the_warnings(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send
) -> None:
    answer = send(supplier, payload)
    assert answer.headers["X-Warning-Count"] == "1"
    assert "warnings" not in json_of(answer)
    sound = send(supplier, payload | {"billing_postcode": "1012 AB"})
    assert sound.headers["X-Warning-Count"] == "0"


@pytest.mark.parametrize("send", [_validate, _stage])
def test_the_full_report_of_a_faulty_account_is_a_400_with_errors_and_warnings(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send
) -> None:
    faulty = payload | {"unknown_occupier": "perhaps"}
    plain, answer = send(supplier, faulty), send(supplier, faulty, "?report=full")
    assert (plain.status_code, answer.status_code) == (400, 400)
    assert codes_of(answer) == codes_of(plain) == [("unknown_occupier", "invalid")]
    report = json_of(answer)
    assert (report["valid"], report["account"], report["code"]) == (False, None, "account_failed_validation")
    assert [it["code"] for it in report["warnings"]] == ["invalid_postcode"]
    assert json_of(plain).keys() == {"detail", "code", "errors"}


@pytest.mark.parametrize("send", [_validate, _stage])
def test_an_unknown_kind_of_report_is_refused(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send
) -> None:
    answer = send(supplier, payload, "?report=short")
    assert (answer.status_code, code_of(answer)) == (400, "request_failed_validation")
    assert codes_of(answer) == [("report", "invalid_choice")]


@pytest.mark.parametrize("send", [_validate, _stage])
def test_findings_have_the_correction_that_makes_them_disappear(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send
) -> None:
    faulty = _without_check_digit(payload) | {"unknown_occupier": "nee"}
    report = json_of(send(supplier, faulty, "?report=full"))
    [error], [warning] = report["errors"], report["warnings"]
    assert error["suggestions"] == json_of(send(supplier, faulty))["errors"][0]["suggestions"]
    assert error["suggestions"] == [
        {
            "op": "replace",
            "path": "unknown_occupier",
            "value": False,
            "confidence": "certain",
            "kind": "true_or_false",
        }
    ]
    assert {it["kind"] for it in warning["suggestions"]} == {"ean_check_digit"}
    apply(faulty, [Suggestion(**step) for step in (*error["suggestions"], *warning["suggestions"])])
    answer = send(supplier, faulty)
    assert (answer.status_code < 300, answer.headers["X-Warning-Count"]) == (True, "0")


def test_what_is_stored_of_a_refused_account_has_no_suggestions(
    supplier: SupplierClient, payload: dict[str, Any]
) -> None:
    staged = json_of(_stage(supplier, _without_check_digit(payload), "?report=full"))
    assert "suggestions" in staged["warnings"][0]
    number = payload["external_account_number"]
    history = json_of(supplier.get(f"/accounts/{payload['import_supplier']}/{number}/"))
    assert [sorted(it) for it in history["staged"]["warnings"]] == [["attr", "code", "detail"]]


def _without_check_digit(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload whose only warning is that its first EAN has 17 digits."""
    ean = payload["supply_addresses"][0]["meter_points"][0]["ean"]
    text = encode_json(payload).replace(ean.encode(), b"87168592000123291")
    sent: dict[str, Any] = parse_json(text)
    return sent | {"billing_postcode": "1012 AB"}


def test_a_strict_validation_reports_warnings_as_errors(
    supplier: SupplierClient, payload: dict[str, Any]
) -> None:
    answer = _validate(supplier, payload, "?report=full&profile=strict")
    assert answer.status_code == 400
    assert ("billing_postcode", "invalid_postcode") in codes_of(answer)
    assert json_of(answer)["warnings"] == []
    assert codes_of(_validate(supplier, payload, "?profile=loose")) == [("profile", "invalid_choice")]

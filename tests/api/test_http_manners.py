"""HTTP of every endpoint: compression, paths, hosts, parameters, headers, errors, log lines, moments."""

import gzip
import logging
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote_to_bytes

import pytest
from flask import Flask
from flask.testing import FlaskClient

from migration_payloads.moments import show_moment
from migration_payloads.schemas.json import encode_json
from migration_service.config import Settings
from migration_service.origin import SERVICE, current_origin
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import MakeClient
from support.imported_account import ImportedAccount, code_of, codes_of
from support.supplier_client import API, SupplierClient

STAGE = "/account-import-process/create-or-update/"


def test_another_host_than_the_allowed_ones_is_refused(make_client: MakeClient, migrated: Settings) -> None:
    client = make_client(
        replace(migrated, console=True, allowed_hosts="migration.example, [::1]", metrics_token="let-me-in")
    )
    page = "/v1/openapi.json"
    answers = {
        host: client.get(page, headers={"Host": host}).status_code
        for host in ("migration.example", "MIGRATION.example:8443", "[::1]:8000", "evil.example", "")
    }
    assert [*answers.values()] == [200, 200, 200, 400, 400]
    refused = client.get(page, headers={"Host": "evil.example"})
    assert refused.json is not None
    assert refused.json["code"] == "host_not_allowed"
    assert client.get("/health/live", headers={"Host": "10.0.0.7"}).status_code == 200
    by_prometheus = {"Host": "10.0.0.7:8443", "Authorization": "Bearer let-me-in"}
    assert client.get("/metrics", headers=by_prometheus).status_code == 200
    for host, status in (("migration.example", 200), ("evil.example", 400)):
        assert client.get("/console/login/", headers={"Host": host}).status_code == status


def test_metrics_are_refused_if_the_host_header_names_another_site(client: FlaskClient) -> None:
    here = {"REMOTE_ADDR": "127.0.0.1"}
    evil = client.get("/metrics", headers={"Host": "evil.example"}, environ_overrides=here)
    assert evil.status_code == 404
    assert client.get("/metrics", environ_overrides=here).status_code == 200


def test_a_parameter_given_twice_must_have_one_value(supplier: SupplierClient) -> None:
    path = f"/all-account-import-processes/{supplier.code}/"
    assert supplier.get(f"{path}?limit=1&limit=1").status_code == 200
    answer = supplier.get(f"{path}?limit=1&limit=2")
    assert answer.status_code == 400
    assert answer.json is not None
    assert [(item["code"], item["attr"]) for item in answer.json["errors"]] == [("invalid", "limit")]


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (b"", "batch_file_unreadable"),
        (b'"{}"', "batch_file_unreadable"),
        (gzip.compress(b"{}", mtime=0)[:-3], "batch_file_unreadable"),
        (b"[{}]", "batch_file_not_ndjson"),
        (gzip.compress(b"a;b\n1;2\n", mtime=0), "batch_file_not_ndjson"),
    ],
    ids=["empty", "one text", "cut off", "a list", "CSV"],
)
def test_a_batch_in_another_format_is_refused_and_none_is_begun(
    batches: BatchClient, file: bytes, code: str
) -> None:
    answer = batches.post(file, "stage")
    assert (answer.status_code, code_of(answer)) == (400, code)
    assert batches.supplier.get("/batches/").json == []


def test_a_byte_order_mark_is_accepted_and_an_empty_body_is_called_empty(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    headers = {"Content-Type": "application/json"}
    text = b"\xef\xbb\xbf" + encode_json(account)
    assert supplier.post(STAGE, data=text, headers=headers).status_code == 201
    for path in (STAGE, "/account-import-process/process/"):
        empty = supplier.post(path, data=b"\n", headers=headers)
        assert (empty.status_code, empty.json and empty.json["errors"][0]["detail"]) == (
            400,
            "The body is empty. Send one JSON value.",
        )


def test_a_number_with_slashes_is_never_another_address(app: Flask) -> None:
    """A path with a number ends with it, and no longer path begins alike, so that none hides the other."""
    rules = [rule.rule for rule in app.url_map.iter_rules() if rule.rule.startswith(API)]
    with_number = [rule for rule in rules if "<number:" in rule]
    assert with_number
    for rule in with_number:
        head, _, tail = rule.partition("<number:")
        assert re.fullmatch("[a-z_]+>/", tail), rule
        alike = [other for other in rules if other.startswith(head.partition("<")[0]) and other != rule]
        assert all(other.count("/") < rule.count("/") for other in alike), (rule, alike)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing/", 404, "not_found"),
        ("DELETE", "/v1/data-import/validate-account/", 405, "method_not_allowed"),
    ],
)
def test_an_unknown_path_and_a_wrong_method_have_their_codes(
    client: FlaskClient, method: str, path: str, status: int, code: str
) -> None:
    answer = client.open(path, method=method)
    assert answer.json is not None
    detail = answer.json["detail"]
    assert (answer.status_code, answer.json["code"]) == (status, code)
    assert answer.json["errors"] == [{"detail": detail, "code": code, "attr": None}]
    assert ("Allow" in answer.headers) == (status == 405)
    assert ("/v1/openapi.json" in detail) == (status == 404)
    assert ("does not take DELETE. It takes OPTIONS and POST." in detail) == (status == 405)


def test_an_unexpected_error_is_500_in_the_same_form(supplier: SupplierClient) -> None:
    with patch("migration_service.blueprints.status.get_status", side_effect=RuntimeError):
        answer = supplier.status("1")
    detail = "An unexpected error. Nothing was changed."
    item = {"detail": detail, "code": "error", "attr": None}
    assert (answer.status_code, answer.json) == (500, {"detail": detail, "code": "error", "errors": [item]})


def test_413_names_the_limit(supplier: SupplierClient) -> None:
    limit = supplier.app.config["MAX_CONTENT_LENGTH"]
    answer = supplier.post("/notes/create/", "x" * limit)
    assert answer.status_code == 413
    assert answer.json is not None
    assert f"{limit:,} bytes" in answer.json["detail"]


def test_responses_with_data_of_accounts_are_neither_cached_nor_executed(
    supplier: SupplierClient, client: FlaskClient
) -> None:
    for answer in (supplier.get(f"/all-account-import-processes/{supplier.code}/"), client.get(f"{API}/x/")):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


LOGGER = "migration_service.blueprints.requests.lifecycle"


def _lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the lines of requests, without that for the description, which the client reads once."""
    lines = [record for record in caplog.records if record.name == LOGGER]
    return [line for line in lines if vars(line)["route"] != "/v1/openapi.json"]


def test_a_request_is_one_line_with_route_status_time_and_id(
    client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/v1/data-import/account-transfer-status/SECRET_SUPPLIER/0612345678/?name=Jansen"
    with caplog.at_level(logging.INFO, LOGGER):
        client.get(path, headers={"X-Request-ID": "request-7"}, buffered=True)
    (line,) = _lines(caplog)
    told = vars(line)
    assert told["method"] == "GET"
    assert told["status"] == 401
    assert told["request_id"] == "request-7"
    assert (told["address"], told["api_key"]) == (client.environ_base["REMOTE_ADDR"], None)
    assert 0 <= told["duration_ms"] < 1000 * time.monotonic()
    assert told["route"].endswith("/<import_supplier_code>/<number:external_account_number>/")
    for secret in ("SECRET_SUPPLIER", "0612345678", "Jansen"):
        assert secret not in str(told)
    assert current_origin() == SERVICE


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_health_checks_and_metrics_are_not_logged(
    client: FlaskClient, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        client.get(path, buffered=True)
    assert not _lines(caplog)


_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_ANY_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:[^\",\r\n]*", re.ASCII)


def test_times_have_the_documented_format(
    account: ImportedAccount, worker_resources: WorkerResources
) -> None:
    batches = BatchClient(account.supplier, worker_resources)
    batch_id = batches.start(account.supplier.accounts(), mode="stage")
    batches.work()
    for path in (f"/batches/{batch_id}/", "/batches/", f"/reconciliation/{account.supplier.code}/id-map/"):
        found = _ANY_MOMENT.findall(account.supplier.get(path).text)
        assert found
        assert [moment for moment in found if not _MOMENT.fullmatch(moment)] == []


def test_a_time_of_an_extract_that_stands_for_no_day_is_refused(
    account: ImportedAccount, worker_resources: WorkerResources
) -> None:
    batches = BatchClient(account.supplier, worker_resources)
    (payload,) = account.supplier.accounts()
    for moment in (
        "0001-01-01T00:00:00Z",
        "1899-12-30T00:00:00Z",
        "1900-01-01T12:00:00Z",
        "1989-12-31T23:59:59Z",
    ):
        answer = account.supplier.stage(payload, extracted_at=moment)
        batch = batches.post(b"{}", mode="stage", extracted_at=moment)
        for refused in (answer, batch):
            assert (refused.status_code, codes_of(refused)) == (400, [("extracted_at", "out_of_range")])


def test_a_year_is_shown_with_four_digits() -> None:
    assert show_moment(datetime(800, 2, 3, 4, 5, 6, 7, tzinfo=UTC)) == "0800-02-03 04:05:06 UTC"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("%00", "invalid_characters"),
        ("%E2%80%AE1", "bidirectional_characters"),
        ("%201", "outer_spaces"),
        ("e%CC%81", "not_normalised"),
        ("1" * 129, "max_length"),
    ],
)
@pytest.mark.parametrize(
    ("path", "attr"),
    [
        ("/account-transfer-status/{supplier}/{name}/", "external_account_number"),
        ("/account-transfer-status/{name}/1/", "import_supplier_code"),
        ("/reconciliation/{name}/id-map/", "import_supplier_code"),
    ],
)
def test_a_name_in_a_path_that_cannot_exist_is_refused(
    supplier: SupplierClient, path: str, attr: str, name: str, code: str
) -> None:
    answer = supplier.get(path.format(supplier=supplier.code, name=name))
    assert answer.status_code == 400
    assert codes_of(answer) == [(attr, code)]


@pytest.mark.parametrize("name", ["%00", "a%00", "%ED%A0%80", "%ff"])
def test_a_path_that_is_not_text_is_refused_at_every_operation(
    supplier: SupplierClient, client: FlaskClient, description: Any, name: str
) -> None:
    """Each name of each path in the description, and paths of no operation."""
    tried = 0
    for path, operations in description["paths"].items():
        for parameter in re.findall("{(.+?)}", path):
            url = re.sub("{.+?}", "1", path.replace(f"{{{parameter}}}", name))
            as_sent = {"PATH_INFO": unquote_to_bytes(url).decode("latin-1")}
            for method in operations.keys() & {"get", "post", "put", "patch", "delete"}:
                tried += 1
                answer = supplier._call(method.upper(), "", environ_overrides=as_sent)
                assert answer.status_code == 400, (method, url, answer.text)
                # The number of a wave is part of the address: with another text it is no operation's path.
                attr = None if parameter == "number" else parameter
                assert codes_of(answer) == [(attr, "invalid_characters")]
                assert client.open(method=method, environ_overrides=as_sent).status_code in (400, 401)
    assert tried > 40
    for path in ("/v1/docs/assets/{}", "/{}/", "/console/batches/{}/", "/console/accounts/S/{}/"):
        as_sent = {"PATH_INFO": unquote_to_bytes(path.format(name)).decode("latin-1")}
        assert client.get(environ_overrides=as_sent).status_code == 400

"""HTTP of every endpoint: compression, paths with and without the trailing slash, hosts and parameters."""

import gzip
import re
from dataclasses import replace

import pytest
from flask import Flask
from flask.testing import FlaskClient

from migration_payloads.schemas.json import encode_json
from migration_service.config import Settings
from support.batch_client import BatchClient
from support.factories import MakeClient
from support.imported_account import code_of
from support.supplier_client import API, SupplierClient

STAGE = "/account-import-process/create-or-update/"


def test_a_compressed_body_is_read(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert supplier.post(STAGE, data=gzip.compress(encode_json(account)), headers=headers).status_code == 201


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

"""Flask and what answers before it say the same, whatever is asked and whoever asks."""

import logging
import sys
from itertools import count
from json import dumps
from typing import Any, TypeAlias

import pytest
from prometheus_client import REGISTRY
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import Client

from migration_payloads.schemas import account
from migration_service.blueprints import direct
from migration_service.blueprints.requests import interface
from migration_service.blueprints.requests.lifecycle import logger
from migration_service.blueprints.requests.resources import resources
from migration_service.models import Organisation
from migration_service.services.access.api_keys import KeyLimits, issue_api_key
from migration_service.services.access.scopes import Scope
from migration_service.tasks.resources import WorkerResources
from support.factories import obtain
from support.supplier_client import API, SupplierClient

_Asked: TypeAlias = tuple[str, str, dict[str, str], dict[str, Any] | bytes]
_STATUS = "/account-transfer-status/"
_STAGE, _VALIDATE = "/account-import-process/create-or-update/", "/validate-account/"
_STATUSES = [
    ("GET", "{code}/{new}/", {}),
    ("GET", "{code}/{new}", {}),
    ("GET", "{code}/{running}/", {}),
    ("GET", "{code}/{created}/", {}),
    ("GET", "{code}/{created}/", {"X-Request-ID": "one-of-mine"}),
    ("GET", "{code}/{created}/", {"X-Request-ID": "none of mine"}),
    ("GET", "{code}/{created}/", {"Authorization": ""}),
    ("GET", "{code}/{created}/", {"Authorization": "Token nonsense"}),
    ("GET", "{code}/{created}/", {"Authorization": "Bearer {token}"}),
    ("GET", "{code}/{created}/", {"Authorization": "Token {limited}"}),
    ("GET", "{code}/nobody/", {}),
    ("GET", "NOBODY/{created}/", {}),
    ("GET", "{code}/{created}/?colour=red", {}),
    ("GET", "{code}//", {}),
    ("GET", "{code}/a%00b/", {}),
    ("GET", "{code}/a%FFb/", {}),
    ("GET", "{code}/../", {}),
    ("GET", "{code}/" + "9" * 129 + "/", {}),
    ("HEAD", "{code}/{created}/", {}),
    ("POST", "{code}/{created}/", {}),
    ("OPTIONS", "{code}/{created}/", {}),
]
_JSON = {"Content-Type": "application/json"}
# The members of a staged account that are others. The number "fresh" was never sent.
_SENT: list[_Asked] = [
    ("POST", path, _JSON | headers, body)
    for path in (_STAGE, _STAGE[:-1], _VALIDATE, _STAGE + "?report=full", _STAGE + "?colour=red")
    for headers, body in (
        ({}, {"external_account_number": "fresh"}),
        ({}, {}),
        ({}, {"external_account_number": "{running}"}),
        ({}, {"external_account_number": "{created}"}),
        ({}, {"external_account_number": "fresh", "unknwon_occupier": True}),
        ({}, {"external_account_number": "fresh", "ledgers": 1}),
        ({}, {"external_account_number": "fresh", "customers": []}),
        ({}, {"external_account_number": "fresh", "import_supplier": "NOBODY"}),
        ({}, {"external_account_number": "fresh", "notes": "x" * 70_000}),
        ({}, b"{"),
        ({}, b""),
        ({}, b"[1]"),
        ({"Content-Length": "7000"}, b"{}"),
        ({"Content-Length": "x"}, b"{}"),
        ({"Content-Encoding": "gzip"}, b"{}"),
        ({"Content-Type": "text/plain"}, {"external_account_number": "fresh"}),
        ({"Content-Type": "application/json; charset=utf-8"}, {"external_account_number": "fresh"}),
        ({"Authorization": "Token {limited}"}, {"external_account_number": "fresh"}),
        ({"Authorization": "Token nonsense"}, {"external_account_number": "fresh"}),
    )
]

_MEMBERS = ("levelname", "method", "route", "status", "request_id", "api_key", "organisation_id", "address")


@pytest.fixture
def names(
    supplier: SupplierClient, sessions: sessionmaker[Session], worker_resources: WorkerResources
) -> dict[str, str]:
    """What stands for itself in a path or header."""
    found = dict(zip(("new", "running", "created"), supplier.stage_new(3), strict=True))
    supplier.process(found["running"])
    supplier.process(found["created"])
    supplier.work(worker_resources, found["created"])
    with sessions.begin() as session:
        organisation = session.get_one(Organisation, supplier.organisation_id()).name
        key = issue_api_key(session, organisation_name=organisation, limits=KeyLimits(scopes=[Scope.STAGE]))
    limited = str(obtain(supplier.app.test_client(), APIKey=key)["token"])
    return found | {"code": supplier.code, "token": supplier.token, "limited": limited}


def _observations() -> dict[tuple[str, ...], float]:
    name = "migration_http_request_duration_seconds_count"
    return {
        tuple(sample.labels.values()): sample.value
        for metric in REGISTRY.restricted_registry([name]).collect()
        for sample in metric.samples
        if sample.name == name
    }


def test_both_ways_have_the_same_answer_line_and_metric(
    names: dict[str, str], supplier: SupplierClient, caplog: pytest.LogCaptureFixture
) -> None:
    app = supplier.app
    fresh = count()
    [staged] = supplier.accounts()
    supplier.stage(staged)

    def ask(
        application: Any, method: str, path: str, headers: dict[str, str], body: dict[str, Any] | bytes
    ) -> tuple[Any, ...]:
        caplog.clear()
        before = _observations()
        given = {"Authorization": "Token {token}"} | headers
        number = f"NEVER-SENT-{next(fresh):03}"
        if isinstance(body, dict):
            text = dumps(staged | body)
            for name, it in names.items():
                text = text.replace(f"{{{name}}}", it)
            body = text.replace('"fresh"', dumps(number)).encode()
        with caplog.at_level(logging.INFO, logger.name):
            answer = Client(application).open(
                API + path.format_map(names),
                method=method,
                data=body,
                headers={name: text.format_map(names) for name, text in given.items()},
                environ_base={"REMOTE_ADDR": "10.9.8.7"},
            )
        counted = {labels for labels, it in _observations().items() if it != before.get(labels)}
        told = dict(answer.headers)
        if "Retry-After" in told:  # is drawn by lot
            told["Retry-After"] = ""
        [line] = [vars(it) for it in caplog.records if it.name == logger.name]
        known = {name: line[name] for name in _MEMBERS}
        if headers.get("X-Request-ID") != "one-of-mine":
            assert told.pop("X-Request-ID") == known.pop("request_id")
        return answer.status, told, answer.data.replace(number.encode(), b"fresh"), known, counted

    statuses = set()
    asked: list[_Asked] = [(method, _STATUS + path, headers, b"") for method, path, headers in _STATUSES]
    for one in [*asked, *_SENT]:
        directly, by_flask = ask(app.wsgi_app, *one), ask(type(app).wsgi_app.__get__(app), *one)
        assert directly == by_flask, one
        statuses.add(by_flask[0][:3])
    assert statuses == {"200", "201", "400", "401", "403", "404", "405", "415"}


def test_an_ordinary_request_costs_few_calls(
    names: dict[str, str], supplier: SupplierClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without token and database. A request through Flask makes 700 calls."""
    with supplier.app.app_context():
        shared = resources()
    caller = interface.identify_caller(shared, f"Token {supplier.token}", None)
    monkeypatch.setattr(direct, "identify_caller", lambda *_: caller)
    monkeypatch.setattr(direct, "write_status", lambda *_: b"{}")
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": f"{API}/account-transfer-status/{supplier.code}/{names['new']}/",
        "HTTP_AUTHORIZATION": f"Token {supplier.token}",
    }
    application: Any = supplier.app.wsgi_app
    application(environ, lambda *_: None)
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        [body] = application(environ, lambda *_: None)
    finally:
        sys.setprofile(None)
    assert (body, calls < 230) == (b"{}", True), calls


@pytest.mark.parametrize("path", [_STAGE, _VALIDATE])
def test_a_faulty_account_is_loaded_once(
    path: str, supplier: SupplierClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[object] = []

    def load(*given: Any) -> Any:
        loaded.append(given)
        return load_account(*given)

    load_account = vars(account)["load"]
    monkeypatch.setattr(account, "load", load)
    [payload] = supplier.accounts()
    answer = supplier.post(path, payload | {"ledgers": 1})
    assert (answer.status_code, len(answer.get_json()["errors"]), len(loaded)) == (400, 1, 1)

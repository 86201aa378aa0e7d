"""Who may open which page: every view is tried with every role, bound and not bound."""

import re
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from flask import Flask
from itsdangerous import TimestampSigner
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.routing import Rule

from migration_service.blueprints.console.views import VIEWS, Need
from migration_service.config import Settings
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.access.operators import OperatorRole
from migration_service.services.certificates.making import certify_piece, start_certificate
from migration_service.services.setup.teams import create_operations_team
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.starting import start_undo
from migration_service.states import ReadinessCheck
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, LogIn
from support.rows import make_webhook
from support.supplier_client import SupplierClient
from support.wave_client import WaveClient

_VARIABLE = re.compile(r"<(?:[^<>]*:)?(\w+)>")
#: What the paths of nothing that exists are made of.
_NOTHING = dict.fromkeys(("code", "number", "prefix", "name", "filename"), "none") | {
    "batch_id": str(UUID(int=0)),
    "undo_id": str(UUID(int=0)),
    "certificate_id": str(UUID(int=0)),
    "plan_id": str(UUID(int=0)),
    "line_number": "1",
    "team_id": "1",
    "webhook_id": str(UUID(int=0)),
    "mode": "import",
    "named": "none",
}


@pytest.fixture
def values(batches: BatchClient, broken_batch: str, settings: Settings) -> dict[str, str]:
    """What the paths of an existing supplier, batch, account, undo, plan and webhook are made of."""
    with batches.supplier.Session.begin() as session:
        supplier = batches.supplier.known()
        undone = [batches.supplier.accounts(5)[4]["external_account_number"]]
        undo_id = start_undo(session, UndoOrder(supplier=supplier, external_account_numbers=undone))
        owner = batches.supplier.organisation
        team_id = create_operations_team(session, "Team of a test", organisation_name=owner).id
        webhook_id = make_webhook(session, supplier.organisation_id, supplier.code).id
    batches.supplier.reconcile()
    with batches.supplier.Session.begin() as session:
        key = settings.certificate_key
        certificate_id = start_certificate(session, supplier, None, key=key, by="Grace").id
        certify_piece(session, certificate_id, key)
    assert batches.supplier.stage(batches.supplier.accounts(7)[6]).status_code == 201
    plan = WaveClient(batches).plan({"rest": True})
    return {
        "code": batches.supplier.code,
        "batch_id": broken_batch,
        "line_number": "2",
        "number": batches.supplier.accounts(1)[0]["external_account_number"],
        "prefix": str(find_prefix(batches.supplier.api_key)),
        "name": "nobody",
        "named": "mail_held",
        "mode": "import",
        "undo_id": str(undo_id),
        "certificate_id": str(certificate_id),
        "plan_id": plan["plan_id"],
        "team_id": str(team_id),
        "webhook_id": str(webhook_id),
        "filename": "console.css",
    }


def _console(app: Flask) -> Flask:
    console: Flask = app.extensions["migration_service_console"]
    return console


def _views(app: Flask, values: dict[str, str]) -> Iterator[tuple[Need, str, str]]:
    """What each view needs, with a method and a path of it."""
    for rule in _console(app).url_map.iter_rules():
        if rule.endpoint == "static":
            continue
        for method in sorted((rule.methods or set()) & {"GET", "POST"}):
            yield VIEWS[rule.endpoint], method, _path(rule, values)


def _path(rule: Rule, values: dict[str, str]) -> str:
    known = values | ({"code": "invalid_phone_number"} if "batch_id" in rule.arguments else {})
    known |= {"number": "1"} if "plan_id" in rule.arguments else {}
    known |= {"name": ReadinessCheck.BACKUP_RECENT} if "/ready/" in rule.rule else {}
    return _VARIABLE.sub(lambda found: known[found[1]], rule.rule)


def _ask(client: ConsoleClient, method: str, path: str, token: str) -> int:
    """The status of a page, or of a form whose fields have their defaults."""
    answer = client.get(path) if method == "GET" else client.post(path, {"csrf_token": token})
    return answer.status_code


def test_the_table_has_every_view_and_no_other(console_app: Flask) -> None:
    endpoints = {rule.endpoint for rule in _console(console_app).url_map.iter_rules()}
    assert endpoints - {"static"} == set(VIEWS)


def test_what_concerns_the_whole_service_is_for_operators_who_are_bound_to_none() -> None:
    assert {name for name, need in VIEWS.items() if need.whole_service} == {
        "health.show",
        "operators.show",
        "operators.create",
        "operators.set_role",
        "operators.set_password",
        "operators.disable",
    }


def test_what_changes_something_or_leaves_the_console_is_not_for_readers(console_app: Flask) -> None:
    roles: dict[OperatorRole, set[str]] = {role: set() for role in OperatorRole}
    for rule in _console(console_app).url_map.iter_rules():
        changes = "POST" in (rule.methods or ()) and not rule.endpoint.startswith(("login.", "openid."))
        if (changes and rule.rule.startswith("/setup/")) or rule.rule == "/suppliers/new/":
            roles[OperatorRole.ADMINISTER].add(rule.endpoint)
        elif changes:
            roles[OperatorRole.OPERATE].add(rule.endpoint)
    # It ends every undo for good, or is for who creates suppliers.
    administered = {"go_live.set_moment", "supplier_actions.rename", "supplier_actions.remove"}
    roles[OperatorRole.OPERATE] -= administered
    roles[OperatorRole.ADMINISTER] |= {"audit.export"} | administered
    # What was sent, and what is wrong with it, may be about people.
    roles[OperatorRole.OPERATE] |= {"downloads.results", "downloads.hand_back"}
    roles[OperatorRole.OPERATE] |= {"upload.show", "suppliers.download_id_map"}
    needs = {role: {name for name, need in VIEWS.items() if need.role is role} for role in OperatorRole}
    assert needs[OperatorRole.OPERATE] == roles[OperatorRole.OPERATE]
    assert needs[OperatorRole.ADMINISTER] == roles[OperatorRole.ADMINISTER]


def test_who_has_not_logged_in_is_sent_to_the_login_and_sees_nothing(
    console_app: Flask, stranger: ConsoleClient, values: dict[str, str]
) -> None:
    for need, method, path in _views(console_app, values):
        if need.role is None:
            continue
        answer = stranger.get(path) if method == "GET" else stranger.send(path, page="/login/")
        assert answer.status_code == 302, (method, path)
        assert answer.location.startswith("/console/login/"), (method, path)
        assert values["code"] not in answer.text.replace(answer.location, ""), (method, path)


@pytest.mark.parametrize("is_bound", [False, True])
@pytest.mark.parametrize("role", list(OperatorRole))
def test_every_view_is_open_to_the_roles_that_its_row_names_and_to_no_other(
    log_in: LogIn,
    supplier: SupplierClient,
    monkeypatch: pytest.MonkeyPatch,
    role: OperatorRole,
    is_bound: bool,
) -> None:
    client = log_in(role, *([supplier.organisation] if is_bound else []))
    token = client.tokens("/password/")["csrf_token"]
    console = _console(client.app)
    for endpoint in VIEWS:  # Only what guards the views is asked: none of them needs to exist for that.
        monkeypatch.setitem(console.view_functions, endpoint, lambda **_values: "open")
    for need, method, path in _views(client.app, _NOTHING):
        if need.role is None:
            continue
        allowed = role.includes(need.role) and not (need.whole_service and is_bound)
        assert _ask(client, method, path, token) == (200 if allowed else 403), (role, method, path)


def test_every_view_answers_an_operator_with_the_least_role_who_is_bound_if_that_is_enough(
    console_app: Flask, log_in: LogIn, supplier: SupplierClient, values: dict[str, str]
) -> None:
    free = {role: log_in(role) for role in OperatorRole}
    bound = {role: log_in(role, supplier.organisation) for role in OperatorRole}
    for need, method, path in _views(console_app, values):
        if need.role is None or path == "/logout/":
            continue
        client = (free if need.whole_service else bound)[need.role]
        token = client.tokens("/password/")["csrf_token"] if method == "POST" else ""
        status = _ask(client, method, path, token)
        assert status in ((200,) if method == "GET" else (200, 303, 400)), (method, path, status)


def test_an_operator_who_is_bound_to_another_organisation_sees_nothing_of_this_one(
    console_app: Flask,
    app: Flask,
    sessions: sessionmaker[Session],
    log_in: LogIn,
    values: dict[str, str],
) -> None:
    other = SupplierClient.create(app, sessions)
    client = log_in(OperatorRole.ADMINISTER, other.organisation)
    named = {"code", "batch_id", "prefix", "undo_id", "certificate_id", "plan_id", "webhook_id"}
    token = client.tokens("/work/")["csrf_token"]
    for need, method, path in _views(console_app, values):
        if need.role is None or need.whole_service or path in ("/logout/", "/password/"):
            continue
        if any(values[name] in path for name in named):
            status = _ask(client, method, path, token)
            assert status in (400, 404), (method, path, status)
            if method == "GET":
                assert status == 404 or "/setup/keys/" in path, (method, path, status)
        elif method == "GET":
            text = client.get(path).text
            for name in (*named, "number"):
                assert values[name] not in text, (path, name)
    found = client.get(f"/accounts/?q={values['number']}")
    assert found.status_code == 200
    assert "/accounts/" + values["number"] not in found.text
    trail = client.see("/audit/")
    assert values["batch_id"] not in trail


def test_a_form_without_the_token_of_the_page_is_refused(log_in: LogIn, values: dict[str, str]) -> None:
    client = log_in()
    for _need, method, path in _views(client.app, values):
        if method == "POST":
            answer = client.post(path, {"form_token": str(uuid4()), "csrf_token": "wrong"})
            assert answer.status_code == 400, path
    answer = client.post(f"/suppliers/{values['code']}/status/", {"status": "Paused"})
    assert answer.status_code == 400
    assert "Ongoing" in client.see(f"/suppliers/{values['code']}/")


def test_a_page_may_stay_open_for_a_day_and_be_sent_over_https(
    administrator: ConsoleClient, batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/batches/{batches.start(batches.supplier.accounts(1))}/pause/"
    form = administrator.tokens(path)
    now = TimestampSigner.get_timestamp
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda self: now(self) + 86_400)
    answer = administrator.client.post(f"/console{path}", data=form, base_url="https://localhost/")
    assert answer.status_code == 303


def test_pages_say_what_a_browser_may_load(log_in: LogIn) -> None:
    headers = log_in().get("/").headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; ")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_a_service_without_the_console_has_a_page_of_links_and_no_login(app: Flask) -> None:
    client = app.test_client()
    front = client.get("/")
    assert front.status_code == 200
    assert "/v1/docs/" in front.text
    assert client.get("/console/").status_code == 404


def test_the_front_page_leads_to_the_console(console_app: Flask) -> None:
    assert console_app.test_client().get("/").location == "/console/"

"""The Authorization header over HTTP, and every route, requested by clients that may not use it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.routing import Rule

from migration_payloads.schemas.coded import example_of
from migration_service.config import Settings
from migration_service.schemas import added_data
from migration_service.services.access.api_keys import revoke_api_key
from migration_service.services.access.tokens import obtain_tokens
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from migration_service_local.samples import generate_accounts
from support.factories import Customer, json_of, make_customer
from support.imported_account import ImportedAccount
from support.supplier_client import API, SupplierClient
from support.undo_client import GoLiveClient, UndoClient
from support.wave_client import WaveClient

#: Routes that need no token. Think twice before you add one.
OPEN = {
    "docs.asset",
    "docs.description_json",
    "docs.page",
    "docs.start",
    "front_page.show",
    "graphql.obtain_token",
    "graphql.show_hint",
    "health.live",
    "health.pod",
    "health.ready",
    "metrics.metrics",
}


def _payload(customer: Customer) -> Any:
    return next(iter(generate_accounts(1, supplier=customer.import_supplier, seed=1)))


def _added(**fields: Any) -> Any:
    def body(customer: Customer) -> Any:
        return {**fields, "import_supplier": customer.import_supplier, "external_account_number": "1"}

    return body


def _of_undo(customer: Customer) -> dict[str, Any]:
    return {"import_supplier": customer.import_supplier, "external_account_numbers": ["1"]}


#: A moment that has not come.
_LATER = f"{datetime.now(UTC) + timedelta(days=9):%Y-%m-%dT%H:%M:%SZ}"
#: The body in which a route names an import supplier. Other routes name it in their path or in the query
#: string.
BODIES = {
    "added_data.create_notes": _added(**example_of(added_data.NotesRequestSchema)),
    "added_data.create_transactions": _added(**example_of(added_data.TransactionsRequestSchema)),
    "added_data.create_historical_statements": _added(**example_of(added_data.StatementsRequestSchema)),
    "added_data.create_payment_instruction": _added(**example_of(added_data.PaymentInstructionRequestSchema)),
    "readiness.accept_warning": lambda _customer: {"check": "backup_recent", "reason": "Tonight."},
    "reconciliation.acknowledge_open": lambda _customer: {
        "reason": "Left on purpose.",
        "external_account_numbers": ["1"],
    },
    "reconciliation.accept_exception": lambda _customer: {"problem": "OPEN", "reason": "Known."},
    "account_imports.process_account": lambda customer: {
        "external_account_number": "1",
        "import_supplier_code": customer.import_supplier,
        "operations_team_name": customer.operations_team,
    },
    "certificates.start_certificate": lambda customer: {"import_supplier": customer.import_supplier},
    "erasure.erase_account": _added(reason="Request 1"),
    "go_lives.preview_go_live": lambda customer: {"import_supplier": customer.import_supplier},
    "go_lives.start_go_live": lambda customer: {"import_supplier": customer.import_supplier, "at": _LATER},
    "replacements.preview_replacement": _of_undo,
    "replacements.start_replacement": lambda customer: {**_of_undo(customer), "reason": "A test."},
    "skipping.skip_accounts": lambda customer: {**_of_undo(customer), "reason": "A test."},
    "undo.preview_undo": _of_undo,
    "undo.start_undo": lambda customer: {**_of_undo(customer), "reason": "A test."},
    "waves.plan_waves": lambda customer: {
        "import_supplier": customer.import_supplier,
        "operations_team_name": customer.operations_team,
        "waves": [{"rest": True}],
    },
    "account_imports.stage_account": _payload,
    "account_imports.validate_account": _payload,
}


def _guarded(app: Flask) -> list[tuple[Rule, str]]:
    return [
        (rule, method)
        for rule in app.url_map.iter_rules()
        if rule.endpoint not in OPEN
        for method in sorted((rule.methods or set()) - {"OPTIONS", "HEAD"})
    ]


def _open(client: FlaskClient, rule: Rule, method: str, customer: Customer, authorization: str | None) -> Any:
    values = dict.fromkeys(rule.arguments, "1") | dict.fromkeys(
        ("import_supplier_code", "subject"), customer.import_supplier
    )
    with client.application.test_request_context():
        path = client.application.url_map.bind("").build(
            rule.endpoint, {name: values[name] for name in rule.arguments}, method
        )
    headers = {"Authorization": authorization} if authorization is not None else {}
    body = BODIES[rule.endpoint](customer) if rule.endpoint in BODIES else {}
    query = {"import_supplier": customer.import_supplier, "mode": "import", "source": "pending"}
    query |= {"operations_team_name": customer.operations_team}
    in_query = query if rule.endpoint == "batches.start_batch" else None
    return client.open(
        path, method=method, headers=headers, json=body if method != "GET" else None, query_string=in_query
    )


def test_every_route_that_is_not_open_refuses_requests_without_a_valid_token(
    app: Flask,
    client: FlaskClient,
    customer: Customer,
    sessions: sessionmaker[Session],
    migrated: Settings,
) -> None:
    gone = make_customer(sessions)
    with sessions.begin() as session:
        valid = obtain_tokens(session, migrated, customer.api_key)
        over = replace(migrated, token_lifetime_seconds=0)
        expired = obtain_tokens(session, over, customer.api_key)
        revoked = obtain_tokens(session, migrated, gone.api_key)
        revoke_api_key(session, gone.prefix)
    attempts = {
        None: "not_authenticated",
        "Token": "not_authenticated",
        "Token nonsense": "authentication_failed",
        f"Token {valid.token}x": "authentication_failed",
        f"Token {valid.refresh_token}": "authentication_failed",
        f"Token {expired.token}": "authentication_failed",
        f"Token {revoked.token}": "authentication_failed",
        f"Token {customer.api_key}": "authentication_failed",
        f"Basic {valid.token}": "authentication_failed",
    }
    guarded = _guarded(app)
    assert guarded
    for rule, method in guarded:
        for authorization, code in attempts.items():
            response = _open(client, rule, method, customer, authorization)
            assert (response.status_code, json_of(response)["code"]) == (401, code), (rule, authorization)
            assert response.headers["WWW-Authenticate"] == "Token"
            assert set(response.json) == {"detail", "code", "errors"}


_IDS = {
    "batch_id",
    "certificate_id",
    "go_live_id",
    "undo_id",
    "plan_id",
    "attempt_id",
    "session_id",
    "webhook_id",
}
#: Lists of everything that an organisation has, and names that are its own.
_LISTS = {
    "api_key.get_api_key",
    "batches.list_batches",
    "certificates.list_certificates",
    "events.forget_event_consumer",
    "events.list_event_consumers",
    "events.list_events",
    "go_lives.list_go_lives",
    "import_suppliers.list_import_suppliers",
    "sessions.list_sessions",
    "undo.list_undos",
    "waves.list_plans",
    # Its own tests name suppliers of others.
    "webhooks.create_webhook",
    "webhooks.list_webhooks",
}


def test_every_route_hides_another_organisations_accounts(
    app: Flask, client: FlaskClient, token: str, supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (account,) = supplier.accounts()
    supplier.stage(account | {"external_account_number": "1"})
    supplier.process("1")
    assert perform_attempt(worker_resources.Session, supplier.current_attempt("1"))
    other = Customer(supplier.organisation, 0, supplier.api_key, supplier.code, supplier.team)
    nobody = replace(other, import_supplier="NOBODY")
    for rule, method in _guarded(app):
        if _IDS & rule.arguments or rule.endpoint in _LISTS:
            continue  # the next test
        in_path = bool({"import_supplier_code", "subject"} & rule.arguments)
        in_body = rule.endpoint in BODIES
        assert in_path or in_body or rule.endpoint == "batches.start_batch", (
            f"{rule}: add how this route names an import supplier"
        )
        theirs = _open(client, rule, method, other, f"Token {token}")
        none = _open(client, rule, method, nobody, f"Token {token}")
        # Section 4.8 answers 404 for the names in the body.
        hidden = in_path or rule.endpoint == "added_data.create_notes"
        assert theirs.status_code == (404 if hidden else 400), rule
        assert json_of(theirs)["code"] == "import_supplier_not_found", (rule, theirs.json)
        assert theirs.data.replace(other.import_supplier.encode(), b"NOBODY") == none.data
        mine = _open(client, rule, method, other, f"Token {supplier.token}")
        assert b"import_supplier_not_found" not in mine.data, rule


def test_every_route_hides_what_another_organisation_has(
    app: Flask, client: FlaskClient, token: str, waves: WaveClient, worker_resources: WorkerResources
) -> None:
    supplier = waves.supplier
    batch_id = waves.batches.start([b"{}"], "validate")
    account = ImportedAccount.create(supplier, worker_resources)
    (attempt,) = json_of(supplier.get(f"/account-import-attempts/{supplier.code}/{account.number}/"))
    waves.stage(1)
    session_id = json_of(supplier.get("/sessions/"))[0]["session_id"]
    webhook = json_of(supplier.post("/webhooks/", {"url": "https://billing.example.com/events"}))
    supplier.reconcile()
    certificate = json_of(supplier.post("/certificates/", {"import_supplier": supplier.code}))
    theirs = {
        "certificate_id": (certificate["certificate_id"], "certificate_not_found"),
        "webhook_id": (webhook["webhook_id"], "webhook_not_found"),
        "batch_id": (batch_id, "batch_not_found"),
        "go_live_id": (GoLiveClient(supplier).start(at=_LATER), "go_live_not_found"),
        "undo_id": (UndoClient(supplier).start(account.number), "undo_not_found"),
        "plan_id": (waves.plan({"rest": True})["plan_id"], "wave_plan_not_found"),
        "attempt_id": (attempt["attempt_id"], "attempt_not_found"),
        "session_id": (session_id, "session_not_found"),
    }
    seen = set()
    # What some of these routes require.
    query = {"batches.set_batch_brake": {"stop_after_errors": "off"}}
    bodies: dict[str, dict[str, object]] = {
        **{it: {"reason": "because"} for it in ("waves.approve_wave", "waves.stop_wave")},
        **{it: {} for it in ("webhooks.change_webhook", "webhooks.rotate_webhook_secret")},
        "waves.change_wave": {},
        "webhooks.redeliver_webhook": {"since": "2026-03-01T00:00:00Z"},
    }
    for rule, method in _guarded(app):
        for name in theirs.keys() & rule.arguments:
            seen.add(name)
            for given in (theirs[name][0], str(uuid4()), "nothing"):
                with app.test_request_context():
                    values = dict.fromkeys(rule.arguments, given) | {"number": 1}
                    values = {it: values[it] for it in rule.arguments}
                    path = app.url_map.bind("").build(rule.endpoint, values, method)
                answer = client.open(
                    path,
                    method=method,
                    headers={"Authorization": token},
                    query_string=query.get(rule.endpoint),
                    json=bodies.get(rule.endpoint),
                )
                assert (answer.status_code, json_of(answer)["code"]) == (404, theirs[name][1]), (rule, given)
    assert seen == set(theirs)
    for path in ("batches", "undos", "wave-plans", "webhooks"):
        assert client.get(f"{API}/{path}/", headers={"Authorization": token}).json == []

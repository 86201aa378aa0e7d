"""The limits of a key over HTTP: scopes, import suppliers, networks and expiry."""

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.requests.interface import SCOPES, scopes_of
from migration_service.services.access.api_keys import KeyLimits, issue_api_key
from migration_service.services.access.scopes import Scope
from support.audit import audited
from support.factories import Customer, json_of, obtain

PREFIX = "/v1/data-import"


def _issue(sessions: sessionmaker[Session], organisation: str, **limits: Any) -> str:
    with sessions.begin() as session:
        return issue_api_key(session, organisation_name=organisation, limits=KeyLimits(**limits))


def _token(client: FlaskClient, api_key: str) -> dict[str, str]:
    return {"Authorization": f"Token {obtain(client, APIKey=api_key)['token']}"}


def _endpoints(app: Flask) -> set[str]:
    rules = list(app.url_map.iter_rules())
    return {rule.endpoint for rule in rules if rule.rule.startswith(PREFIX)}


def test_every_view_has_a_scope_and_every_scope_a_view(app: Flask) -> None:
    endpoints = _endpoints(app)
    assert endpoints
    assert {endpoint for endpoint in endpoints if not scopes_of(endpoint)} == set()
    assert {name for name in SCOPES if "." in name} <= endpoints
    assert {scope for endpoint in endpoints for scope in scopes_of(endpoint)} == set(Scope)


#: The operations that keys with any of these scopes may use. Each may also ask what it is (`get_api_key`).
_OPENED = """
added_data: create_historical_statements create_notes create_payment_instruction create_transactions
batches: accept_warning approve_wave cancel_batch change_wave pause_batch pause_wave plan_waves
    reconcile_wave resume_batch resume_wave retry_failed_lines set_batch_brake set_control_totals
    set_old_figures start_batch start_certificate start_wave stop_wave
erase: erase_account
go_live: cancel_go_live preview_go_live start_go_live
process: process_account
process batches: acknowledge_open skip_accounts
process batches go_live: accept_exception
read: forget_event_consumer get_account get_account_status get_acknowledgements get_id_map
    get_import_supplier get_receipt get_report list_all_account_imports list_event_consumers list_events
    list_failed_account_imports list_import_suppliers list_imported_account_imports
    list_pending_account_imports reconcile_import_supplier
read batches: check_readiness compare_batches download_certificate get_batch get_batch_results
    get_certificate get_changed_accounts get_control_totals get_failed_lines get_old_figures get_plan
    list_batches list_certificates list_old_figure_differences list_plans prove_account
read go_live: get_go_live list_go_lives
read process: get_attempt list_attempts
read undo: get_undo get_undo_results list_undos
replace: preview_replacement start_replacement
sessions: end_session list_sessions
stage: stage_account
undo: cancel_undo preview_undo start_undo
validate: validate_account
webhooks: change_webhook create_webhook get_webhook get_webhook_delivery list_webhook_deliveries
    list_webhooks redeliver_webhook remove_webhook rotate_webhook_secret test_webhook
"""


def test_each_operation_is_open_to_its_scopes(app: Flask) -> None:
    found: dict[str, list[str]] = {}
    for endpoint in sorted(_endpoints(app)):
        found.setdefault(" ".join(scopes_of(endpoint)), []).append(endpoint.rpartition(".")[2])
    assert found.pop(" ".join(Scope)) == ["get_api_key"]
    lines = _OPENED.replace("\n    ", " ").strip().splitlines()
    opened = {scopes: names.split() for scopes, names in (line.split(": ") for line in lines)}
    assert {scopes: sorted(names) for scopes, names in found.items()} == opened


@pytest.mark.parametrize("scope", list(Scope))
def test_a_key_with_one_scope_reaches_its_views_and_is_refused_at_all_others(
    app: Flask, client: FlaskClient, customer: Customer, sessions: sessionmaker[Session], scope: Scope
) -> None:
    headers = _token(client, _issue(sessions, customer.organisation, scopes=[scope]))
    reached = set()
    for rule in app.url_map.iter_rules():
        if not rule.rule.startswith(PREFIX):
            continue
        with app.test_request_context():
            path = app.url_map.bind("").build(rule.endpoint, dict.fromkeys(rule.arguments, "1"))
        method = min({"PATCH", "POST", "PUT"} & (rule.methods or set()), default="GET")
        answer = client.open(path, method=method, headers=headers, data=b"")
        if answer.status_code == 403:
            assert json_of(answer)["code"] == "permission_denied"
            wanted = [f"'{accepted.value}'" for accepted in scopes_of(rule.endpoint)]
            assert all(name in json_of(answer)["detail"] for name in wanted)
        else:
            reached.add(rule.endpoint)
    assert reached == {it for it in _endpoints(app) if scope in scopes_of(it)}


def test_a_key_that_reads_reaches_whatever_changes_nothing_except_for_sessions_and_webhooks(
    app: Flask,
) -> None:
    rules = [rule for rule in app.url_map.iter_rules() if rule.rule.startswith(PREFIX)]
    reads = {rule.endpoint for rule in rules if "GET" in (rule.methods or ())}
    reached = {rule.endpoint for rule in rules if Scope.READ in scopes_of(rule.endpoint)}
    others = {it for it in reads if it.startswith(("sessions.", "webhooks."))}
    assert {scopes_of(it) for it in others if it.startswith("webhooks.")} == {(Scope.WEBHOOKS,)}
    # A reader may forget the position that the service keeps for it.
    assert reached == reads - others | {"events.forget_event_consumer"}


def test_refusals_are_in_the_audit_once_an_address_and_minute(
    client: FlaskClient, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    path = f"{PREFIX}/all-account-import-processes/{customer.import_supplier}/"
    denied = _token(client, _issue(sessions, customer.organisation, scopes=[Scope.STAGE]))
    for _ in range(3):
        client.get(path, headers={"Authorization": "Token nonsense"})
        client.get(path, headers=denied)
        obtain(client, APIKey=customer.api_key[:-1] + "-")
    found = audited(sessions, address=client.environ_base["REMOTE_ADDR"])
    # There are two if the minute ended in between.
    assert {(entry.action, entry.code, entry.outcome) for entry in found} == {
        ("token.refused", "refused_token", "REFUSED"),
        ("permission.refused", "permission_denied", "REFUSED"),
        ("login.refused", "failed_login", "REFUSED"),
    }
    assert len(found) <= 6
    (permission, *_) = [entry for entry in found if entry.action == "permission.refused"]
    assert (permission.actor_kind, permission.organisation_id) == ("api_key", customer.organisation_id)

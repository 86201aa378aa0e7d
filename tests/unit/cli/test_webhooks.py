"""`migration-service webhooks`, with `--json` and for people."""

from sqlalchemy.orm import Session, sessionmaker

from migration_service.outgoing.rules import AddressRules
from migration_service.schemas.events import EventType
from migration_service.services.access.api_keys import get_api_key
from migration_service.services.events.recording import record
from migration_service.services.webhooks.endpoints import OPERATOR, WebhookCaller, create_endpoint
from migration_service.services.webhooks.secrets import Seal
from support.commands import Run, json_of, lines_of
from support.factories import Customer

_URL = "https://billing.example.com/events"


def test_a_webhook_is_set_up_tested_and_removed(run: Run, customer: Customer) -> None:
    options = ("--organisation", customer.organisation, "--type", "batch.ended")
    made = json_of(
        run("webhooks", "create", _URL, *options, "--supplier", customer.import_supplier, "--json")
    )
    assert made["secret"].startswith("whsec_")
    assert made["event_types"] == ["batch.ended"]
    webhook_id = made["webhook_id"]
    (listed,) = lines_of(run("webhooks", "list", "--json"))
    assert listed == {name: value for name, value in made.items() if name != "secret"}
    assert made["secret"] not in run("webhooks", "show", webhook_id).stdout
    changed = json_of(run("webhooks", "change", webhook_id, "--off", "--email", "a@example.com", "--json"))
    assert (changed["enabled"], changed["event_types"]) == (False, ["batch.ended"])
    assert changed["email"] == "a@example.com"
    rotated = json_of(run("webhooks", "rotate-secret", webhook_id, "--json"))
    assert rotated["secret"] != made["secret"]
    number = json_of(run("webhooks", "test", webhook_id, "--json"))["delivery_number"]
    (delivery,) = lines_of(run("webhooks", "deliveries", webhook_id, "--state", "pending", "--json"))
    assert (delivery["delivery_number"], delivery["event_type"]) == (number, "webhook.test")
    shown = run("webhooks", "deliveries", webhook_id, "--delivery", str(number))
    assert shown.stdout == "It has not been sent yet.\n"
    assert run("webhooks", "remove", webhook_id).exit_code == 0
    missing = run("webhooks", "show", webhook_id)
    assert (missing.exit_code, missing.stdout) == (1, "")


def test_for_people_only_the_secret_is_on_standard_output(run: Run, customer: Customer) -> None:
    result = run("webhooks", "create", _URL, "--organisation", customer.organisation)
    assert result.stdout.startswith("whsec_")
    assert "not shown again" in result.stderr
    assert _URL in run("webhooks", "list").stdout


def test_what_cannot_be_a_webhook_is_refused(run: Run, customer: Customer) -> None:
    refused = run("webhooks", "create", "http://127.0.0.1/", "--organisation", customer.organisation)
    assert refused.exit_code == 1
    assert "https://" in refused.stderr
    refused = run("webhooks", "create", _URL, "--organisation", customer.organisation, "--email", "nobody")
    assert refused.exit_code == 1
    assert "This is not an e-mail address" in refused.stderr


def test_events_are_sent_again(run: Run, customer: Customer, sessions: sessionmaker[Session]) -> None:
    made = json_of(run("webhooks", "create", _URL, "--organisation", customer.organisation, "--json"))
    assert json_of(run("webhooks", "change", made["webhook_id"], "--off", "--json"))["enabled"] is False
    with sessions.begin() as session:
        record(session, EventType.BATCH_ENDED, {}, organisation_id=customer.organisation_id)
    again = ("webhooks", "redeliver", made["webhook_id"])
    assert json_of(run(*again, "--since", "2026-01-01", "--only-failed", "--json")) == {"events": 0}
    assert json_of(run(*again, "--since", "2026-01-01", "--json")) == {"events": 1}
    assert json_of(run(*again, "--since", "2026-01-01", "--json")) == {"events": 0}
    assert run(*again).exit_code == 2
    assert run(*again, "--delivery", "4711").exit_code == 1


def test_the_webhooks_of_a_key_go_with_it_or_with_its_successor(
    run: Run, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    old = json_of(run("api-keys", "issue", "--organisation", customer.organisation, "--json"))["prefix"]
    rules, owner = AddressRules(), customer.organisation_id
    with sessions.begin() as session:
        caller = WebhookCaller(api_key_id=get_api_key(session, old).id)
        for who in (caller, OPERATOR):
            create_endpoint(session, owner, rules, Seal([]), {"url": _URL}, caller=who)
    of_key, _ = (it["webhook_id"] for it in lines_of(run("webhooks", "list", "--json")))
    new = json_of(run("api-keys", "roll", old, "--overlap", "1d", "--json"))["prefix"]
    assert json_of(run("api-keys", "revoke", old, "--json"))["webhooks"] == []
    assert f"stay on: {of_key}" in run("api-keys", "revoke", new, "--keep-webhooks").stdout
    assert f"are switched off: {of_key}" in run("api-keys", "revoke", new).stdout
    states = [it["disabled_reason"] for it in lines_of(run("webhooks", "list", "--json"))]
    assert states == ["KEY_REVOKED", None]

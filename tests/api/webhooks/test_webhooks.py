"""Webhooks over HTTP: setting them up, deliveries, redeliveries, and who may do it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from sqlalchemy import text

from migration_service.db.base import new_id
from migration_service.schemas.events import EventType
from migration_service.services.access.api_keys import KeyLimits, get_api_key, issue_api_key
from migration_service.services.events.recording import record
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.webhooks import deliveries
from migration_service.services.webhooks.endpoints import MOST_ENDPOINTS
from migration_service.services.webhooks.switching import find_webhooks_of_key
from support.supplier_client import API, SupplierClient

_URL = "https://billing.example.com/events"


@pytest.fixture
def call(supplier: SupplierClient) -> Any:
    """Call an endpoint for webhooks. Return its status and its JSON."""

    def call(method: str, path: str = "", body: Any = None, token: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Token {token or supplier.token}"}
        client = supplier.app.test_client()
        given = {} if body is None else {"json": body}
        answer = client.open(f"{API}/webhooks/{path}", method=method, headers=headers, **given)
        return answer.status_code, answer.json if answer.is_json else None

    return call


def test_a_webhook_is_created_changed_and_removed(call: Any, supplier: SupplierClient) -> None:
    body = {
        "url": _URL,
        "description": "Billing",
        "event_types": [EventType.ACCOUNT_CREATED, EventType.BATCH_ENDED],
        "import_suppliers": [supplier.code],
        "enabled": False,
    }
    status, made = call("POST", body=body)
    assert status == 201
    assert made.pop("secret").startswith("whsec_")
    assert {name: made[name] for name in body} == body
    assert (made["disabled_reason"], made["email"]) == ("PERSON", None)
    path = f"{made['webhook_id']}/"
    assert call("GET", path) == (200, made)
    assert call("GET") == (200, [made])
    status, changed = call("PATCH", path, {"enabled": False, "event_types": None})
    assert (status, changed["disabled_reason"], changed["event_types"]) == (200, "PERSON", None)

    def find_on() -> list[str]:
        with supplier.Session.begin() as session:
            webhooks = find_webhooks_of_key(session, get_api_key(session, supplier.api_key).id)
            return [str(it.id) for it in webhooks]

    assert find_on() == []
    assert call("PATCH", path, {"enabled": True})[1]["disabled_at"] is None
    assert find_on() == [made["webhook_id"]]
    assert call("DELETE", path)[0] == 200
    assert call("GET", path)[0] == 404
    assert call("GET") == (200, [])


@pytest.mark.parametrize(
    ("body", "code", "attr"),
    [
        ({}, "required", "url"),
        ({"url": "http://billing.example.com/"}, "webhook_url_not_allowed", "url"),
        ({"url": "https://127.0.0.1/"}, "webhook_url_not_allowed", "url"),
        ({"url": "https://[::ffff:10.0.0.1]/"}, "webhook_url_not_allowed", "url"),
        ({"url": _URL, "event_types": ["account.made"]}, "invalid_choice", "event_types.0"),
        ({"url": _URL, "event_types": []}, "empty", "event_types"),
        ({"url": _URL, "import_suppliers": []}, "empty", "import_suppliers"),
        ({"url": _URL, "import_suppliers": ["NOBODY"]}, "import_supplier_not_found", "import_suppliers.0"),
        ({"url": _URL, "email": "anybody@customers.example"}, "unknown_field", "email"),
        ({"url": _URL, "orderd": True}, "unknown_field", "orderd"),
        ({"url": "amqps://rabbit.example.com/?queue=events"}, "webhook_url_not_allowed", "url"),
    ],
)
def test_a_wrong_body_is_refused(call: Any, body: Any, code: str, attr: str) -> None:
    status, answer = call("POST", body=body)
    (error,) = answer["errors"]
    assert (status, error["code"]) == (400, code)
    assert error["attr"] == attr


def test_all_errors_of_a_webhook_are_told_together(call: Any) -> None:
    status, answer = call("POST", body={"url": "https://127.0.0.1/", "import_suppliers": ["A", "B"]})
    assert status == 400
    assert [it["attr"] for it in answer["errors"]] == ["url", "import_suppliers.0", "import_suppliers.1"]


def test_no_more_than_two_secrets_are_valid_and_they_go_with_their_webhook(
    call: Any, supplier: SupplierClient
) -> None:
    _, made = call("POST", body={"url": _URL})
    path = f"{made['webhook_id']}/"

    def kept() -> list[bool]:
        with supplier.Session.begin() as session:
            rows = session.execute(text("SELECT expires_at IS NULL FROM webhook_secret ORDER BY id"))
            return [row[0] for row in rows]

    secrets = {made["secret"]}
    for _ in range(3):
        status, answer = call("POST", f"{path}secret/", {"overlap_hours": 168})
        assert (status, kept()) == (200, [False, True])
        secrets.add(answer["secret"])
    assert len(secrets - {""}) == 4
    status, answer = call("POST", f"{path}secret/", {"overlap_hours": 169})
    assert (status, answer["errors"][0]["attr"]) == (400, "overlap_hours")
    assert call("POST", f"{path}secret/", {"overlap_hours": 0})[0] == 200
    assert kept() == [True]
    assert call("DELETE", path)[0] == 200
    assert kept() == []


def test_an_organisation_has_a_share_of_redeliveries_whatever_it_removes(
    call: Any, supplier: SupplierClient
) -> None:
    _, made = call("POST", body={"url": _URL})
    with patch.object(deliveries, "MOST_REDELIVERIES", 2):
        for _ in range(2):
            assert call("POST", f"{made['webhook_id']}/test/")[0] == 202
        assert call("DELETE", f"{made['webhook_id']}/")[0] == 200
        _, another = call("POST", body={"url": _URL})
        with supplier.Session.begin() as session:
            owner = supplier.organisation_id()
            session.execute(
                text("UPDATE webhook_endpoint SET disabled_at = now(), disabled_reason = 'PERSON'")
            )
            record(session, EventType.ACCOUNT_CREATED, {}, organisation_id=owner)
        for path, body in (("test/", None), ("redeliver/", {"since": "2020-03-01T00:00:00Z"})):
            status, answer = call("POST", f"{another['webhook_id']}/{path}", body)
            assert (status, answer["code"]) == (400, "too_many_redeliveries")
        with supplier.Session.begin() as session:
            session.execute(text("UPDATE webhook_delivery SET organisation_id = 0"))
        assert call("POST", f"{another['webhook_id']}/test/")[0] == 202, "those of others do not count"
        assert call("POST", f"{another['webhook_id']}/redeliver/", body) == (202, {"events": 1}), (
            "the last one"
        )


def test_there_is_a_limit(call: Any) -> None:
    for _ in range(MOST_ENDPOINTS):
        assert call("POST", body={"url": _URL})[0] == 201
    status, answer = call("POST", body={"url": _URL})
    assert (status, answer["code"]) == (400, "too_many_webhooks")


def test_deliveries_are_listed_in_pages_and_sent_again(call: Any, supplier: SupplierClient) -> None:
    _, made = call("POST", body={"url": _URL})
    path = f"{made['webhook_id']}/"
    with supplier.Session.begin() as session:
        for number in range(3):
            owner = supplier.organisation_id()
            record(session, EventType.ACCOUNT_CREATED, {"number": number}, organisation_id=owner)
        session.execute(text("UPDATE webhook_delivery SET id = id + 5_000_000_000"))
    _, found = call("GET", f"{path}deliveries/")
    ids = [it["delivery_number"] for it in found]
    assert ids == sorted(ids, reverse=True)
    assert {it["state"] for it in found} == {"PENDING"}
    assert [
        it["delivery_number"] for it in call("GET", f"{path}deliveries/?limit=2&cursor={ids[0]}")[1]
    ] == ids[1:]
    assert call("GET", f"{path}deliveries/?state=FAILED") == (200, [])
    with supplier.Session.begin() as session:
        session.execute(text("UPDATE webhook_delivery SET state = 'FAILED', settled_at = now()"))
        session.execute(
            text("""INSERT INTO webhook_attempt (delivery_id, number, at, milliseconds, status, error, answer)
                    SELECT id, number, now(), 12, 500, 'status', 'Oops' FROM webhook_delivery,
                    generate_series(1, 2) AS number""")
        )
    _, listed = call("GET", f"{path}deliveries/?state=FAILED&limit=1")
    assert [it["number"] for it in listed[0]["attempt_list"]] == [2]
    _, one = call("GET", f"{path}deliveries/{ids[0]}/")
    assert [(it["status"], it["error"], it["answer"]) for it in one["attempt_list"]] == [
        (500, "status", "Oops")
    ] * 2
    assert call("POST", f"{path}redeliver/", {"delivery_number": ids[0]}) == (202, {"events": 1})
    since = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"since": since, "only_failed": True}
    assert call("POST", f"{path}redeliver/", body) == (202, {"events": 2})
    assert call("POST", f"{path}redeliver/", body) == (202, {"events": 0})
    status, test = call("POST", f"{path}test/")
    assert (status, test["event_type"], test["replay"]) == (202, "webhook.test", True)
    assert len(call("GET", f"{path}deliveries/?state=PENDING")[1]) == 4


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("redeliver/", {}),
        ("redeliver/", {"delivery_number": 1, "since": "2026-03-01T00:00:00Z"}),
        ("redeliver/", {"since": "yesterday"}),
        ("redeliver/", {"delivery_number": 2**63}),
    ],
)
def test_a_redelivery_names_its_events(call: Any, path: str, body: Any) -> None:
    _, made = call("POST", body={"url": _URL})
    assert call("POST", f"{made['webhook_id']}/{path}", body)[0] == 400
    assert call("GET", f"{made['webhook_id']}/deliveries/?cursor=x")[0] == 400


@pytest.mark.parametrize("delivery", ["1", "0", "-1", "x", "9" * 19])
def test_what_does_not_exist_is_not_found(call: Any, delivery: str) -> None:
    _, made = call("POST", body={"url": _URL})
    assert call("GET", f"{made['webhook_id']}/deliveries/{delivery}/")[0] == 404
    for webhook_id in (uuid4(), "x"):
        assert call("GET", f"{webhook_id}/")[0] == 404


def test_a_key_limited_to_suppliers_gets_their_events_only(call: Any, supplier: SupplierClient) -> None:
    with supplier.Session.begin() as session:
        code = f"OTHER_{new_id().hex[-6:]}"
        create_import_supplier(session, code=code, organisation_name=supplier.organisation)
    token = _token(supplier, KeyLimits(import_suppliers=[supplier.code]))
    _, of_all = call("POST", body={"url": _URL})
    status, made = call("POST", body={"url": _URL}, token=token)
    assert (status, made["import_suppliers"]) == (201, [supplier.code])
    path = f"{made['webhook_id']}/"
    assert call("PATCH", path, {"import_suppliers": None}, token)[1]["import_suppliers"] == [supplier.code]
    assert call("PATCH", path, {"import_suppliers": [code]}, token)[0] == 403
    assert call("GET", f"{of_all['webhook_id']}/", token=token)[0] == 404
    assert [it["webhook_id"] for it in call("GET", token=token)[1]] == [made["webhook_id"]]


def _token(supplier: SupplierClient, limits: KeyLimits) -> str:
    with supplier.Session.begin() as session:
        key = issue_api_key(session, organisation_name=supplier.organisation, limits=limits)
    limited = supplier.copy()
    limited.api_key = key
    return limited.obtain_token()

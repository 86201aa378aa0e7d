"""The share of redeliveries that an organisation has."""

from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import text

from migration_service.schemas.events import EventType
from migration_service.services.events.recording import record
from migration_service.services.webhooks import deliveries
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

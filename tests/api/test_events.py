"""The feed over HTTP: pages that end after so many bytes, streams in pieces, and what describes it."""

import msgspec
import pytest

from migration_service.blueprints import events as view
from migration_service.db.base import new_id
from migration_service.schemas.events import EventType
from migration_service.services.events.recording import record
from support.events import read_feed
from support.factories import json_of
from support.supplier_client import API, SupplierClient


def tell(supplier: SupplierClient, *numbers: str) -> None:
    """Record the creation of accounts with these numbers, each in a transaction of its own."""
    known = supplier.known()
    for number in numbers:
        data = {"external_account_number": number, "service_account_number": "A-1", "attempt_id": new_id()}
        with supplier.Session.begin() as session:
            whose = {"organisation_id": known.organisation_id, "import_supplier_id": known.id}
            record(session, EventType.ACCOUNT_CREATED, data, **whose)


def numbers(events: list[dict[str, dict[str, str]]]) -> list[str]:
    return [event["data"]["external_account_number"] for event in events]


def test_a_page_ends_after_so_many_bytes_and_leads_on(
    supplier: SupplierClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(supplier, *"12", *(f"{number}{'0' * 400}" for number in range(3, 6)))
    monkeypatch.setattr(view, "PAGE_BYTES", 1_000)
    pages: list[list[str]] = []
    path = "/events/?limit=100"
    while not pages or pages[-1]:
        answer = supplier.get(path)
        pages.append([number[0] for number in numbers(json_of(answer))])
        path = answer.headers["Link"].partition(">")[0].partition(API)[2]
    assert pages == [["1", "2", "3"], ["4", "5"], []]


def test_a_stream_has_everything_piece_by_piece(
    supplier: SupplierClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "PIECE", 2)
    tell(supplier, *"12345")
    events = read_feed(supplier)
    assert numbers(events) == [*"12345"]
    assert numbers(read_feed(supplier, cursor=events[2]["cursor"])) == ["4", "5"]
    assert numbers(read_feed(supplier, cursor="start", limit=3)) == ["1", "2", "3"]
    assert supplier.get("/events/").headers["Vary"] == "Accept"
    assert read_feed(supplier, cursor=events[4]["cursor"]) == []


def test_every_type_is_described_as_a_webhook(supplier: SupplierClient) -> None:
    description = json_of(supplier.app.test_client().get("/v1/openapi.json"))
    assert set(description["webhooks"]) == {type_.value for type_ in EventType}
    for type_, item in description["webhooks"].items():
        example = item["post"]["requestBody"]["content"]["application/json"]["example"]
        assert example["type"] == type_
        assert msgspec.json.encode(example)

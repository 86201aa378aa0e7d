"""The feed over HTTP: pages, streams, filters, named consumers, and cursors that cannot be read on from."""

import msgspec
import pytest
from sqlalchemy import delete, update
from werkzeug.test import TestResponse

from migration_service.blueprints import events as view
from migration_service.db.base import new_id
from migration_service.models import ApiKey, Event
from migration_service.schemas.events import EventType
from migration_service.services.events import consumers
from migration_service.services.events.recording import record
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.tasks.resources import WorkerResources
from support.audit import audited
from support.events import NDJSON, read_feed
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


def following(answer: TestResponse) -> str:
    """Return the path to which the Link header leads."""
    link = answer.headers["Link"]
    assert link.endswith('>; rel="next"')
    return link.partition(">")[0].partition(API)[2]


def test_pages_lead_to_what_has_not_happened_yet(supplier: SupplierClient) -> None:
    first = supplier.get("/events/?limit=2")
    assert json_of(first) == []
    tell(supplier, "1", "2", "3")
    second = supplier.get(following(first))
    assert numbers(json_of(second)) == ["1", "2"]
    third = supplier.get(following(second))
    assert numbers(json_of(third)) == ["3"]
    fourth = supplier.get(following(third))
    assert json_of(fourth) == []
    tell(supplier, "4")
    assert numbers(json_of(supplier.get(following(fourth)))) == ["4"]


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
        path = following(answer)
    assert pages == [["1", "2", "3"], ["4", "5"], []]


def test_an_event_says_what_happened(supplier: SupplierClient, worker_resources: WorkerResources) -> None:
    (number,) = supplier.stage_new()
    supplier.process(number)
    attempt_id = supplier.work(worker_resources, number)
    (event,) = read_feed(supplier)
    (same,) = json_of(supplier.get("/events/"))
    assert same == event
    assert (event["type"], event["import_supplier"]) == ("account.created", supplier.code)
    assert event["data"] == {
        "external_account_number": number,
        "service_account_number": supplier.process_row(number).service_account_number,
        "attempt_id": attempt_id,
    }


def test_a_stream_has_everything_piece_by_piece(
    supplier: SupplierClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "PIECE", 2)
    tell(supplier, *"12345")
    events = read_feed(supplier)
    assert numbers(events) == [*"12345"]
    assert numbers(read_feed(supplier, cursor=events[2]["cursor"])) == ["4", "5"]
    assert numbers(read_feed(supplier, cursor="start", limit=3)) == ["1", "2", "3"]
    assert read_feed(supplier, cursor=events[4]["cursor"]) == []


def test_filters_by_type_and_supplier(supplier: SupplierClient) -> None:
    with supplier.Session.begin() as session:
        create_import_supplier(session, code="OTHER_OF_THEM", organisation_name=supplier.organisation)
    tell(supplier, "1")
    assert numbers(read_feed(supplier, type="batch.ended, account.created")) == ["1"]
    assert read_feed(supplier, type="batch.ended") == []
    assert numbers(read_feed(supplier, import_supplier_code=supplier.code)) == ["1"]
    assert read_feed(supplier, import_supplier_code="OTHER_OF_THEM") == []


def test_a_limited_key_reads_the_events_of_its_suppliers(supplier: SupplierClient) -> None:
    tell(supplier, "1")
    with supplier.Session.begin() as session:
        session.execute(update(ApiKey).values(import_supplier_ids=[supplier.known().id + 1]))
    assert read_feed(supplier) == []
    with supplier.Session.begin() as session:
        session.execute(update(ApiKey).values(import_supplier_ids=[supplier.known().id]))
    assert numbers(read_feed(supplier)) == ["1"]


def test_a_consumer_gets_events_again_until_it_asks_for_what_follows(supplier: SupplierClient) -> None:
    tell(supplier, *"123")
    ask = "/events/?consumer=billing&limit=2"
    answer = supplier.get(ask)
    assert numbers(json_of(answer)) == ["1", "2"]
    assert numbers(json_of(supplier.get(ask))) == ["1", "2"]
    assert numbers(json_of(supplier.get(following(answer)))) == ["3"]
    assert numbers(json_of(supplier.get(ask))) == ["3"]
    assert numbers(json_of(supplier.get("/events/?consumer=other&limit=1"))) == ["1"]
    assert numbers(json_of(supplier.get("/events/?consumer=billing&cursor=start&limit=1"))) == ["1"]
    assert numbers(json_of(supplier.get(ask))) == ["1", "2"]


def test_consumers_are_listed_and_forgotten(supplier: SupplierClient, another: SupplierClient) -> None:
    tell(supplier, *"12")
    assert json_of(supplier.get("/events/consumers/")) == []
    answer = supplier.get("/events/?consumer=billing&limit=1")
    assert [it["cursor"] for it in json_of(supplier.get("/events/consumers/"))] == ["start"]
    supplier.get(following(answer))
    (listed,) = json_of(supplier.get("/events/consumers/"))
    assert (listed["name"], listed["cursor"]) == ("billing", json_of(answer)[0]["cursor"])
    assert json_of(another.get("/events/consumers/")) == []
    assert another.post("/events/consumers/billing/forget/").status_code == 404
    assert json_of(supplier.post("/events/consumers/billing/forget/")) == listed
    assert supplier.post("/events/consumers/billing/forget/").status_code == 404
    (entry,) = audited(supplier.Session, action="event_consumer.forgotten", subject="billing")
    assert entry.organisation_id == supplier.organisation_id()
    assert numbers(json_of(supplier.get("/events/?consumer=billing"))) == ["1", "2"]


def test_an_organisation_has_as_many_consumers_as_it_may(
    supplier: SupplierClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "MOST_CONSUMERS", 2)
    assert [supplier.get(f"/events/?consumer={name}").status_code for name in "abab"] == [200] * 4
    answer = supplier.get("/events/?consumer=c")
    assert (answer.status_code, json_of(answer)["code"]) == (400, "too_many_event_consumers")


def test_who_has_read_what_does_not_exist_any_more_is_told_once_in_the_feed(supplier: SupplierClient) -> None:
    tell(supplier, *"12")
    lost = read_feed(supplier)[1]["cursor"]
    with supplier.Session.begin() as session:
        session.execute(delete(Event).where(Event.data["external_account_number"].astext == "2"))
    for _ in range(2):
        answer = supplier.get("/events/", query_string={"cursor": lost})
        assert answer.status_code == 400
        body = json_of(answer)
        assert (body["code"], body["errors"][0]["attr"], body["cursor"]) == (
            "event_cursor_ahead",
            "cursor",
            "start",
        )
    first, told = read_feed(supplier)
    assert (numbers([first]), told["type"], told["data"]) == (["1"], "feed.rewound", {"cursor": "start"})


def test_a_cursor_that_nobody_was_given_is_invalid_and_nobody_is_told_of_a_loss(
    supplier: SupplierClient, another: SupplierClient
) -> None:
    """Whether it is one of another feed, or made up with the identifier of the server and a new id."""
    tell(supplier, *"12")
    tell(another, "3")
    theirs = read_feed(another)[0]["cursor"]
    mine = read_feed(supplier)[1]["cursor"]
    limited = update(ApiKey).where(ApiKey.organisation_id == supplier.organisation_id())
    with supplier.Session.begin() as session:
        session.execute(limited.values(import_supplier_ids=[supplier.known().id]))
    made_up = f"{mine.partition('-')[0]}-1-1-1-{'0' * 32}-{'0' * 16}"
    for client, cursor in ((supplier, theirs), (another, mine), (supplier, made_up)):
        for name, headers in (("", {}), ("&consumer=billing", NDJSON)):
            answer = client.get(f"/events/?cursor={cursor}{name}", headers=headers)
            assert answer.status_code == 400
            body = json_of(answer)
            assert (body["code"], body["errors"][0]["attr"]) == ("event_cursor_invalid", "cursor")
            assert "cursor" not in body
    assert (numbers(read_feed(supplier)), numbers(read_feed(another))) == (["1", "2"], ["3"])
    assert json_of(supplier.get("/events/consumers/")) == []


def test_who_has_missed_events_is_told(supplier: SupplierClient) -> None:
    tell(supplier, *"123")
    first = read_feed(supplier)[0]["cursor"]
    with supplier.Session.begin() as session:
        session.execute(delete(Event).where(Event.data["external_account_number"].astext == "1"))
    answer = supplier.get("/events/", query_string={"cursor": first})
    assert (answer.status_code, json_of(answer)["code"]) == (400, "event_cursor_expired")
    assert json_of(answer)["cursor"] == "start"


@pytest.mark.parametrize(
    ("query", "code", "attr"),
    [
        ("limit=10001", "page_size_out_of_range", "limit"),
        ("type=account.create", "invalid_choice", "type"),
        ("type=,", "invalid_choice", "type"),
        ("consumer=webhook:1", "invalid_characters", "consumer"),
        ("consumer=a/b", "invalid_characters", "consumer"),
        ("consumer=..", "invalid_characters", "consumer"),
        ("consumers=1", "unknown_field", "consumers"),
    ],
)
def test_mistakes_are_answered_with_their_path(
    supplier: SupplierClient, query: str, code: str, attr: str
) -> None:
    for headers in ({}, NDJSON):
        answer = supplier.get(f"/events/?{query}", headers=headers)
        assert answer.status_code == 400
        assert (json_of(answer)["errors"][0]["code"], json_of(answer)["errors"][0]["attr"]) == (code, attr)


def test_all_mistakes_of_a_request_are_told_together(supplier: SupplierClient) -> None:
    query = "cursor=1&type=account.create,account.created,nothing&consumer=a/b&limit=0"
    answer = supplier.get(f"/events/?{query}&import_supplier_code=NOBODY")
    errors = json_of(answer)["errors"]
    assert sorted((it["attr"], it["code"]) for it in errors) == [
        ("consumer", "invalid_characters"),
        ("cursor", "event_cursor_invalid"),
        ("import_supplier_code", "import_supplier_not_found"),
        ("limit", "page_size_out_of_range"),
        ("type", "invalid_choice"),
        ("type", "invalid_choice"),
    ]
    answer = supplier.get("/events/?cursor=1&consumer=billing&import_supplier_code=NOBODY")
    assert answer.status_code == 404
    assert [it["code"] for it in json_of(answer)["errors"]] == [
        "import_supplier_not_found",
        "event_cursor_invalid",
    ]
    assert json_of(supplier.get("/events/consumers/")) == []


def test_every_type_is_described_as_a_webhook(supplier: SupplierClient) -> None:
    description = json_of(supplier.app.test_client().get("/v1/openapi.json"))
    assert set(description["webhooks"]) == {type_.value for type_ in EventType}
    for type_, item in description["webhooks"].items():
        example = item["post"]["requestBody"]["content"]["application/json"]["example"]
        assert example["type"] == type_
        assert msgspec.json.encode(example)

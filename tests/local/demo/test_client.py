"""The sample supplier's client, with a web server whose answers the test chooses."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from migration_service_local.demo.client import MigrationError, RequestOutcome, SupplierClient, migrate_book

Answer = tuple[int, dict[str, Any]]
OK: Answer = (200, {})
CREATED: Answer = (201, {})
TOKEN: Answer = (200, {"data": {"obtainServiceToken": {"token": "T"}}})


class Interface(ThreadingHTTPServer):
    """Answers requests with `answers` in turn, then login with a token, and everything else with 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers: list[Answer] = []
        self.requests: list[tuple[str, dict[str, Any], str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Interface

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body, self.headers["Authorization"]))
        usual = TOKEN if self.path == "/v1/graphql/" else OK
        status, answer = self.server.answers.pop(0) if self.server.answers else usual
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def interface() -> Iterator[Interface]:
    with Interface() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def over() -> threading.Event:
    return threading.Event()


def payload(number: str) -> dict[str, Any]:
    return {"external_account_number": number, "import_supplier": "SAMPLE"}


def test_an_account_is_validated_staged_and_processed(interface: Interface, over: threading.Event) -> None:
    outcome = RequestOutcome()
    interface.answers = [OK, CREATED, CREATED]
    with SupplierClient(interface.url, outcome, over) as client:
        client.try_to_migrate(payload("1"), "team")
    assert [path.removeprefix("/v1/data-import/") for path, _, _ in interface.requests] == [
        "validate-account/",
        "account-import-process/create-or-update/",
        "account-import-process/process/",
    ]
    assert interface.requests[2][1] == {
        "external_account_number": "1",
        "import_supplier_code": "SAMPLE",
        "operations_team_name": "team",
    }
    assert outcome.counts == {"validated": 1, "staged": 1, "processed": 1}
    assert outcome.last_account == "1"


@pytest.mark.parametrize(
    "answer",
    [
        (429, {"code": "concurrency_limit_reached"}),
        (503, {"code": "service_unavailable"}),
        (202, {}),
        (400, {"code": "account_import_in_progress"}),
    ],
    ids=["no slot", "unavailable", "accepted", "in progress"],
)
def test_a_request_is_retried_if_the_answer_asks_for_it(
    interface: Interface, over: threading.Event, answer: Answer
) -> None:
    outcome = RequestOutcome()
    interface.answers = [OK, OK, answer, answer, CREATED]
    with SupplierClient(interface.url, outcome, over) as client:
        client.try_to_migrate(payload("1"), "team")
    assert outcome.counts["sent again"] == 2
    assert outcome.counts["processed"] == 1
    assert outcome.failures == []


def test_a_refusal_is_a_failure_with_the_reason_of_the_interface(
    interface: Interface, over: threading.Event
) -> None:
    outcome = RequestOutcome()
    interface.answers = [(400, {"code": "account_failed_validation", "detail": "ean is missing"})]
    with SupplierClient(interface.url, outcome, over) as client:
        client.try_to_migrate(payload("17"), "team")
    (failure,) = outcome.failures
    assert failure.startswith("17 was not validated: 400")
    assert "ean is missing" in failure
    assert len(interface.requests) == 1


@pytest.mark.parametrize("answer", [(200, {"errors": [{"message": "unknown key"}]}), (401, {})])
def test_a_bad_key_is_an_error(interface: Interface, over: threading.Event, answer: Answer) -> None:
    interface.answers = [answer]
    with SupplierClient(interface.url, RequestOutcome(), over) as client, pytest.raises(MigrationError):
        client.log_in("key")


def test_a_book_is_migrated_by_several_clients_each_account_once(
    interface: Interface, over: threading.Event
) -> None:
    outcome = RequestOutcome()
    progress: list[int] = []
    migrate_book(
        (payload(str(number)) for number in range(20)),
        lambda: SupplierClient(interface.url, outcome, over),
        api_key="key",
        team="team",
        clients=4,
        on_each=lambda: progress.append(1),
    )
    validated = [
        body["external_account_number"] for path, body, _ in interface.requests if "validate" in path
    ]
    assert sorted(validated, key=int) == [str(number) for number in range(20)]
    assert len(progress) == 20


def test_nothing_is_sent_to_a_service_that_is_being_stopped(
    interface: Interface, over: threading.Event
) -> None:
    outcome = RequestOutcome()
    over.set()
    with SupplierClient(interface.url, outcome, over) as client:
        client.try_to_migrate(payload("1"), "team")
    assert interface.requests == []
    assert outcome.failures == ["the service is stopping"]

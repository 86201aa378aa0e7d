"""What the client sends, and when it sends it again. Nothing is sent here."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from migration_service_client import (
    ServiceError,
    ServiceUnreachable,
    UnexpectedAnswer,
    codes,
    conversations,
    idempotency_key,
    models,
    operations,
)
from migration_service_client.answers import LineReader
from migration_service_client.command.reconcile import reconcile
from migration_service_client.requests import Lines, Request
from migration_service_client.uploads import encoded

POLICY = conversations.Policy(patience=600.0, jitter=lambda: 0.0)
CREATED = conversations.Answer(201, {}, b'{"service_account_number": "A-1"}')


def error(status: int, code: str, **headers: str) -> conversations.Answer:
    return conversations.Answer(
        status, headers, json.dumps({"code": code, "detail": "", "errors": []}).encode()
    )


def process(key: str | None = None) -> Request[models.CreatedAccount]:
    return operations.process_account(
        external_account_number="1", import_supplier_code="S", operations_team_name="T", idempotency_key=key
    )


class Driver:
    """Takes the steps of a conversation with answers that are given, and keeps what was sent."""

    def __init__(self, *answers: conversations.Answer | conversations.NoAnswer) -> None:
        self._answers = list(answers)
        self.sent: list[Request[Any]] = []
        self.tokens: list[str | None] = []
        self.pauses: list[float] = []

    def run(self, conversation: Any) -> Any:
        result, failed = None, None
        while True:
            try:
                step = conversation.throw(failed) if failed else conversation.send(result)
            except StopIteration as end:
                return end.value
            result, failed = None, None
            try:
                result = self._take(step)
            except ServiceError as raised:
                failed = raised

    def _take(self, step: conversations.Step) -> Any:
        match step:
            case conversations.Send(request, token):
                self.sent.append(request)
                self.tokens.append(token)
                return self._answers.pop(0)
            case conversations.Pause(seconds):
                self.pauses.append(seconds)
                return None
            case conversations.Authorize(stale):
                return "second" if stale else "first"
            case Request():
                return self.run(conversations.single(step, POLICY))


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (conversations.Answer(200, {}), None),
        (error(400, "import_supplier_paused"), None),
        (error(400, "account_failed_validation"), None),
        (error(403, "permission_denied"), None),
        (error(404, "not_found"), None),
        (error(409, "unknown_to_this_version"), None),
        (error(400, "account_import_in_progress", **{"retry-after": "2"}), 2.0),
        (error(429, "throttled", **{"retry-after": "7"}), 7.0),
        (
            error(
                503,
                "x",
                **{"retry-after": "Tue, 24 Nov 2026 10:00:09 GMT", "date": "Tue, 24 Nov 2026 10:00:00 GMT"},
            ),
            9.0,
        ),
        (error(503, "x", **{"retry-after": "Tue, 24 Nov 2026 10:00:09 GMT"}), 4.0),
        (error(503, "x", **{"retry-after": "soon"}), 4.0),
        (error(500, "error"), 4.0),
        (conversations.Answer(502, {}, b"<html>"), 4.0),
        (conversations.Answer(504, {}), 4.0),
        (conversations.NoAnswer("reset"), 4.0),
        (conversations.NoAnswer("certificate", is_final=True), None),
    ],
    ids=str,
)
def test_what_may_be_sent_again_is_and_nothing_else(
    answer: conversations.Answer | conversations.NoAnswer, seconds: float | None
) -> None:
    assert conversations.pause_before(answer, tries=3, jitter=0.0) == seconds


def test_pauses_grow_to_a_minute_and_jitter_only_makes_them_longer() -> None:
    pauses = [conversations.pause_before(conversations.NoAnswer("x"), tries, 0.0) for tries in range(1, 9)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert conversations.pause_before(conversations.Answer(429, {"retry-after": "0"}), 1, 1.0) == 0.25
    assert conversations.pause_before(conversations.Answer(429, {"retry-after": "8"}), 1, 1.0) == 10


def test_a_retry_has_the_same_key_and_another_request_has_another() -> None:
    cut_off = conversations.Answer(202, {"content-type": "application/json"}, b"  ")
    driver = Driver(
        conversations.NoAnswer("reset"), error(503, "x", **{"retry-after": "1"}), cut_off, CREATED
    )
    assert driver.run(conversations.single(process(), POLICY)).service_account_number == "A-1"
    assert len({request.headers["Idempotency-Key"] for request in driver.sent}) == 1
    assert driver.pauses == [1, 1, 4]
    assert process().headers["Idempotency-Key"] != process().headers["Idempotency-Key"]


@pytest.mark.parametrize(
    ("body", "is_cut_off"),
    [(b'[{"a": 1},', True), (b'[{"a": 1}', True), (b" ", True), (b' [{"a": 1}]\n', False), (b"{}", False)],
)
def test_json_without_its_end_is_cut_off(body: bytes, *, is_cut_off: bool) -> None:
    json_of = {"content-type": "application/json"}
    assert conversations.Answer(200, json_of, body).is_cut_off is is_cut_off
    assert not conversations.Answer(200, {"content-type": "text/html"}, body).is_cut_off
    assert not conversations.Answer(502, json_of, body).is_cut_off


def test_it_gives_up_when_its_patience_is_over() -> None:
    driver = Driver(*[conversations.NoAnswer("reset")] * 9)
    with pytest.raises(ServiceUnreachable, match="process_account had no answer after 4 tries: reset"):
        driver.run(conversations.single(process(), conversations.Policy(3.5, lambda: 0.0)))


@pytest.mark.parametrize("seconds", [5, 35, 60])
@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_a_command_bears_a_load_balancer_that_says_for_a_minute_that_the_service_restarts(
    caplog: pytest.LogCaptureFixture, seconds: int, jitter: float
) -> None:
    patience: Any = next(it.default for it in reconcile.params if it.name == "patience")
    policy = conversations.Policy(patience, lambda: jitter)
    talk = conversations.exchange(operations.get_api_key(), policy)
    step, waited = next(talk), 0.0
    with pytest.raises(StopIteration) as ended:
        while True:
            match step:
                case conversations.Pause(pause):
                    waited += pause
                    step = next(talk)
                case conversations.Send():
                    is_back = waited >= seconds
                    found = conversations.Answer(200 if is_back else 503, {}, b"<html>")
                    step = talk.send(found)
                case _:
                    step = talk.send("token")
    assert ended.value.value.status == 200
    assert "get_api_key was answered 503 in try 1" in caplog.text


def test_a_token_is_renewed_once_for_a_request() -> None:
    refused = error(401, "authentication_failed")
    driver = Driver(refused, CREATED)
    driver.run(conversations.single(process(), POLICY))
    assert driver.tokens == ["first", "second"]
    with pytest.raises(codes.AuthenticationFailed):
        Driver(refused, refused).run(conversations.single(process(), POLICY))


def attempt(outcome: str | None, number: str | None = None, **body: Any) -> conversations.Answer:
    given = {
        "attempt_id": "a", "import_supplier": "S", "external_account_number": "1", "dry_run": False,
        "state": "FINISHED" if outcome else "IN_PROGRESS", "outcome": outcome,
        "service_account_number": number,
        "error": None, "created_at": "2026-03-01T10:15:00Z", "finished_at": None,
    }  # fmt: skip
    return conversations.Answer(200, {"retry-after": "2"}, json.dumps(given | body).encode())


ACCEPTED = conversations.Answer(202, {"retry-after": "1"}, b'{"attempt_id": "a"}')


def test_a_202_is_followed_to_its_outcome() -> None:
    driver = Driver(ACCEPTED, attempt(None), attempt("SUCCEEDED", "A-2"))
    assert driver.run(conversations.single(process(), POLICY)).service_account_number == "A-2"
    assert [request.operation for request in driver.sent] == ["process_account", "get_attempt", "get_attempt"]
    assert driver.pauses == [1, 2]


def test_what_is_not_ready_is_asked_for_at_its_location() -> None:
    location = "/v1/data-import/reconciliation/S/?batch=b&comparison=c"
    comparing = conversations.Answer(202, {"retry-after": "5", "location": location}, b'{"comparison": {}}')
    driver = Driver(comparing, comparing, conversations.Answer(200, {}, b'{"prefix": "ami_1"}'))
    address = "/v1/data-import/reconciliation/S/"
    request: Request[dict[str, str]] = Request("reconcile_import_supplier", "GET", address, dict[str, str])
    assert driver.run(conversations.single(request, POLICY)) == {"prefix": "ami_1"}
    assert [it.target for it in driver.sent] == [address, location, location]
    assert driver.pauses == [5, 5]


def test_an_attempt_that_no_worker_took_is_sent_again_and_one_that_failed_is_its_error() -> None:
    driver = Driver(ACCEPTED, attempt("WITHDRAWN"), CREATED)
    assert driver.run(conversations.single(process(), POLICY)).service_account_number == "A-1"
    found = {"code": "account_creation_failed", "detail": "", "errors": []}
    with pytest.raises(codes.AccountCreationFailed):
        Driver(ACCEPTED, attempt("FAILED", error=found)).run(conversations.single(process(), POLICY))


ACCOUNT = {"import_supplier": "S", "external_account_number": "1", "ledgers": []}


def test_an_account_that_exists_is_answered_with_its_number_unless_it_differs() -> None:
    items = [{"code": "account_already_imported", "detail": "", "attr": None}]
    body = {"code": "account_already_imported", "detail": "", "service_account_number": "A-3"}

    def create(errors: list[dict[str, Any]]) -> Any:
        answer = conversations.Answer(400, {}, json.dumps(body | {"errors": errors}).encode())
        return Driver(answer).run(conversations.create_account(ACCOUNT, operations_team_name="T"))

    assert create(items).service_account_number == "A-3"
    with pytest.raises(codes.AccountAlreadyImported) as raised:
        create([*items, {"code": "payload_differs", "detail": "", "attr": "ledgers.0.ledger_balance"}])
    assert raised.value.errors[1].attr == "ledgers.0.ledger_balance"
    assert raised.value.errors[1].suggestions is None


def test_an_account_that_was_created_has_what_its_payload_was_warned_of() -> None:
    creating: Any = conversations.create_account(ACCOUNT, operations_team_name="T")
    assert next(creating).operation == "stage_account"
    warning = models.Finding(code="ledger_missing", detail="", attr="ledgers")
    creating.send(SimpleNamespace(warnings=(warning,)))
    with pytest.raises(StopIteration) as ended:
        creating.send(SimpleNamespace(service_account_number="A-1"))
    created = conversations.CreatedAccount(service_account_number="A-1", warnings=(warning,))
    assert ended.value.value == created


def test_a_new_process_derives_the_same_key() -> None:
    key = idempotency_key("book", 7, {"b": 1, "a": "x"})
    assert key == idempotency_key("book", "7", b' {"a": "x", "b": 1}')
    sent = {"a": "x", "b": 1}
    others = [("book", 8, sent), ("book", 7, sent | {"a": "y"}), ("other", 7, sent)]
    assert key not in {idempotency_key(*other) for other in others}
    assert len(key) == 64
    # A body that is not JSON has a key, too.
    assert idempotency_key("book", 1, b"\xff{") != idempotency_key("book", 1, b"\xfe{")
    assert len(idempotency_key("book", 1, {"half": "\ud800"})) == 64


def test_a_page_leads_to_the_next_one_on_the_same_server() -> None:
    event = {"id": "e", "type": "account.created", "created_at": "2026-03-01T10:15:00Z"}
    link = '<http://elsewhere.example/v1/data-import/events/?cursor=c%2B1>; rel="next"'
    body = json.dumps([event | {"import_supplier": None, "data": {}, "cursor": "c+1"}]).encode()
    items, following = Driver(conversations.Answer(200, {"link": link}, body)).run(
        conversations.page(operations.list_events(), POLICY)
    )
    assert [item.cursor for item in items] == ["c+1"]
    assert following.target == "/v1/data-import/events/?cursor=c%2B1"
    # The feed always has a next page: an empty one ends the list for now.
    assert Driver(conversations.Answer(200, {"link": link}, b"[]")).run(
        conversations.page(following, POLICY)
    ) == ([], None)


def test_what_a_proxy_answers_is_no_error_of_the_service() -> None:
    with pytest.raises(UnexpectedAnswer, match="a 418"):
        Driver(conversations.Answer(418, {}, b"<html>")).run(conversations.single(process(), POLICY))
    with pytest.raises(UnexpectedAnswer, match="a 404"):
        Driver(conversations.Answer(404, {}, b'{"error": "no route"}')).run(
            conversations.single(process(), POLICY)
        )
    with pytest.raises(UnexpectedAnswer, match="form of CreatedAccount"):
        Driver(conversations.Answer(201, {}, b"{}")).run(conversations.single(process(), POLICY))


LINES: Lines[Any] = Lines("lines", "GET", "/lines", bytes, accept="application/x-ndjson")
CSV: Lines[Any] = Lines("lines", "GET", "/lines", dict[str, str], accept="text/csv")
PAGE: Lines[Any] = Lines("lines", "GET", "/lines", bytes, accept="text/html")


@pytest.mark.parametrize(
    ("request_", "chunks", "items"),
    [
        (LINES, (b"{}\n\n[", b"1]"), [b"{}", b"[1]"]),
        (PAGE, (b"<p>\n\n</p>",), [b"<p>", b"", b"</p>"]),
        (CSV, (b"\xef\xbb\xbfa,b\r\n1,", b'"2"\r\n3,4'), [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
    ],
)
def test_a_stream_is_read_by_its_lines_however_it_comes(
    request_: Lines[Any], chunks: tuple[bytes, ...], items: list[Any]
) -> None:
    reader = LineReader(request_)
    assert [it for chunk in chunks for it in reader.feed(chunk)] + list(reader.end()) == items


@pytest.mark.parametrize(
    ("request_", "end"),
    [
        (LINES, b'{"code": "service_unavailable", "detail": "This broke off. Ask again."'),
        (CSV, b'"service_unavailable: This broke off. Ask again.'),
        (PAGE, b"<p><strong>The page broke off. Load it again.</strong>"),
    ],
)
def test_a_stream_that_the_service_could_not_go_on_with_is_an_error(request_: Lines[Any], end: bytes) -> None:
    reader = LineReader(request_)
    assert list(reader.feed(end)) == []
    with pytest.raises(ServiceUnreachable, match="the service could not go on"):
        list(reader.end())


def test_a_batch_is_waited_for_while_it_runs_or_waits() -> None:
    told: list[Any] = []
    waiting: Any = conversations.wait_for_batch("b", seconds=0.2, progress=told.append)
    pauses, states = [], ["WAITING", "RUNNING", "RUNNING", "PAUSED"]
    step = next(waiting)
    for state in states[:-1]:
        assert step.target == "/v1/data-import/batches/b/"
        pauses.append(waiting.send(SimpleNamespace(state=state)).seconds)
        step = next(waiting)
    with pytest.raises(StopIteration) as ended:
        waiting.send(SimpleNamespace(state=states[-1]))
    assert ended.value.value.state == "PAUSED"
    assert pauses == [0.1, pytest.approx(0.15), 0.2]
    assert [it.state for it in told] == states


def test_amounts_and_moments_are_sent_exactly_and_what_is_no_number_is_not() -> None:
    assert encoded({"a": Decimal("1E+2"), "b": Decimal("0.10"), "c": date(2026, 3, 1)}) == (
        b'{"a": "100", "b": "0.10", "c": "2026-03-01"}'
    )
    with pytest.raises(ValueError, match="JSON"):
        encoded({"a": float("nan")})
    since = datetime(2026, 3, 1, 22, tzinfo=UTC)
    request: Request[Any] = Request("ask", "GET", "/ask", Any, query={"since": since, "none": None})
    assert request.target == "/ask?since=2026-03-01T22%3A00%3A00%2B00%3A00"


def test_a_file_is_sent_with_its_name_and_its_type(tmp_path: Path) -> None:
    for name, media_type in (("book.ndjson", "application/x-ndjson"), ("book.gz", "application/gzip")):
        request = operations.start_batch(tmp_path / name, import_supplier="S", mode="stage")
        assert request.query["file_name"] == name
        assert (request.headers["Content-Type"], request.headers["Accept"]) == (
            media_type,
            "application/json",
        )


def test_what_a_generator_yields_can_be_sent_again() -> None:
    parts: list[dict[str, Any] | bytes] = [{"a": Decimal("1.50")}, {"a": 2}, b"{}\n"]
    upload = operations.start_batch(iter(parts), import_supplier="S", mode="stage").body
    for _ in range(2):
        upload.prepare()
        assert upload.read(100) + upload.read(100) == b'{"a": "1.50"}\n{"a": 2}\n{}\n'
        assert upload.size == 26
    upload.close()


@pytest.mark.parametrize(("number", "more"), [(20, ""), (21, "\n  and 1 more")])
def test_an_error_tells_twenty_places_and_how_many_there_are_more(number: int, more: str) -> None:
    refused = ServiceError(400, {"code": "refused", "errors": [{"code": "blank", "attr": "a.0"}] * number})
    assert str(refused) == "400 refused" + 20 * "\n  a.0: blank" + more


def test_null_is_sent_what_is_not_given_is_not_and_paths_and_parameters_are_encoded() -> None:
    assert operations.change_webhook("w", event_types=None, enabled=True).body == (
        b'{"event_types": null, "enabled": true}'
    )
    assert operations.get_batch_results("a/b", code="é&", status="FAILED").target == (
        "/v1/data-import/batches/a%2Fb/results/?code=%C3%A9%26&status=FAILED"
    )
    assert operations.reconcile_import_supplier("S", full=True, batch=None).target == (
        "/v1/data-import/reconciliation/S/?full=true"
    )


def obtained(number: int) -> conversations.Answer:
    answered = {"token": f"t{number}", "refreshToken": f"r{number}", "payload": {"iat": 1000, "exp": 4600}}
    return conversations.Answer(200, {}, json.dumps({"data": {"obtainServiceToken": answered}}).encode())


def test_a_token_is_renewed_with_the_refresh_token_and_with_the_key_if_that_is_refused() -> None:
    refusal = {"errors": [{"message": "", "extensions": {"errorCode": "authentication_failed"}}]}
    refused = conversations.Answer(200, {}, json.dumps(refusal).encode())
    driver, tokens = Driver(obtained(1), refused, obtained(2)), conversations.Tokens("the-key")
    assert tokens.current(None, 0.0) is None
    assert driver.run(tokens.renewal(0.0)) == "t1"
    # It holds for an hour, of which a tenth is left when it is renewed.
    assert tokens.current(None, 3239.0) == "t1"
    assert tokens.current(None, 3240.0) is None
    assert tokens.current("t1", 1.0) is None
    assert driver.run(tokens.renewal(3240.0)) == "t2"
    assert [b"the-key" in request.body for request in driver.sent] == [True, False, True]
    assert driver.tokens == [None] * 3
    with pytest.raises(codes.AuthenticationFailed):
        Driver(refused).run(conversations.Tokens("the-key").renewal(0.0))
    throttled = conversations.Answer(200, {}, refused.body.replace(b"authentication_failed", b"throttled"))
    with pytest.raises(codes.Throttled):
        Driver(throttled).run(conversations.Tokens("the-key").renewal(0.0))

"""Bodies beyond a bound are refused with a code by validate, stage and batches, and never with a 500."""

from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.test import TestResponse

from documentation.pages import ROOT
from migration_payloads.schemas.json import encode_json
from support.supplier_client import SupplierClient

_STAGE = "/account-import-process/create-or-update/"
_JSON = {"Content-Type": "application/json"}


def _nested(levels: int) -> bytes:
    """Return an object in which lists and objects alternate. It is the second level of a payload."""
    text = b"1"
    for level in range(levels - 1, 0, -1):
        text = b'{"a":%b}' % text if level % 2 else b"[%b]" % text
    return text


_Send = Callable[[SupplierClient, int], TestResponse]


def _ending(make: Callable[[int], bytes]) -> _Send:
    """Validate a payload that ends like this."""
    return lambda supplier, size: supplier.post(
        "/validate-account/", data=b'{"external_account_number":"1",%b}' % make(size), headers=_JSON
    )


def _post(path: str, make: Callable[[int], Any]) -> _Send:
    return lambda supplier, size: supplier.post(path.format(supplier.code), make(size))


def _get(path: str) -> _Send:
    return lambda supplier, size: supplier.get(path.format(supplier.code, size))


def _ask_for_token(make: Callable[[int], bytes]) -> _Send:
    return lambda supplier, size: supplier.app.test_client().post(
        "/v1/graphql/", data=make(size), headers=_JSON
    )


def _document(text: str) -> bytes:
    return encode_json({"query": text})


def _threshold(name: str, make: Callable[[int], Any]) -> _Send:
    """Start a batch whose error threshold has this value. Its supplier does not exist."""
    fixed = "import_supplier=nobody&mode=validate&stop_after_errors=1%25"
    return lambda supplier, size: supplier.post(f"/batches/?{fixed}&{name}={make(size)}")


def _plan(make: Callable[[int], list[Any]]) -> Callable[[int], Any]:
    return lambda size: {"import_supplier": "nobody", "operations_team_name": "nobody", "waves": make(size)}


#: What the page calls a bound, and a request of this size.
_AT: dict[str, _Send] = {
    "body, as sent and after decompression": lambda supplier, size: supplier.post(
        "/validate-account/", data=b"{%b}" % (b" " * (size - 2)), headers=_JSON
    ),
    "body of a request for a token": _ask_for_token(lambda n: b'{"query":"%b"}' % (b" " * (n - 12))),
    "tokens of a GraphQL document": _ask_for_token(lambda n: _document("{" + "a " * (n - 2) + "}")),
    "comments in a GraphQL document": _ask_for_token(lambda n: _document("#\n" * n + "{documentation}")),
    "levels of objects and lists": _ending(lambda n: b'"statement_pdf_context":' + _nested(n)),
    "digits of a number; of a whole number that no field reads 4,300": _ending(
        lambda n: b'"billing_address1":' + b"1." + b"1" * (n - 1)
    ),
    "exponent of a number": _ending(lambda n: b'"billing_address1":1e%d' % n),
    "items of a list": _ending(lambda n: b'"customers":[{"user_details":[%b]}]' % b",".join([b"{}"] * n)),
    "errors in an answer, and warnings": _ending(
        lambda n: b'"customers":[%b]' % b",".join([b"{}"] * (n - 1))
    ),
    "accounts or lines of a batch that are acknowledged in one request": _post(
        "/reconciliation/{}/acknowledgements/",
        lambda n: {"reason": "Sent twice.", "external_account_numbers": [str(it) for it in range(n)]},
    ),
    "characters of an identifier": _ending(lambda n: b'"import_supplier":"%b"' % (b"x" * n)),
    "characters of an `Idempotency-Key`": lambda supplier, size: supplier.post(
        "/notes/create/", {}, headers={"Idempotency-Key": "x" * size}
    ),
    "entries of a page": _get("/batches/?limit={1}"),
    "events of a page": _get("/events/?limit={1}"),
    "lines of the window of an error threshold, and before a percentage counts": _threshold(
        "stop_window_lines", str
    ),
    "codes that an error threshold leaves out": _threshold(
        "stop_ignore_codes", lambda n: ",".join(["required"] * n)
    ),
    "waves of a plan": _post("/wave-plans/", _plan(lambda n: [{"size": 1}] * n)),
    "accounts that a wave lists": _post(
        "/wave-plans/", _plan(lambda n: [{"accounts": [str(it) for it in range(n)]}])
    ),
}

#: The tests, and the transcripts with their codes, that reach the other bounds, some with a lower setting.
_ELSEWHERE = {
    "form of the console": "test_a_form_that_is_too_large_or_no_form_is_the_clients_mistake",
    "head of a request, and each header": "test_requests_that_nginx_refuses_get_the_usual_form_of_error",
    "first line of a request": "test_requests_that_nginx_refuses_get_the_usual_form_of_error",
    "time to send a head, and between two pieces of a body or of an answer": (
        "test_requests_that_stop_half_way_hold_no_threads_and_are_closed"
    ),
    "requests of an address that are under way": (
        "test_an_address_with_too_many_requests_under_way_is_answered_429"
    ),
    "uploads of files of an address": "test_an_address_with_too_many_requests_under_way_is_answered_429",
    "commas and opening brackets of a body or line, also within texts": ("client/json.md"),
    "bytes of the events of a page; the last one is whole": (
        "test_a_page_ends_after_so_many_bytes_and_leads_on"
    ),
    "webhooks of an organisation": "rest/webhooks.md",
    "named consumers of events of an organisation": "rest/events.md",
    "failed attempts to obtain a token, for each address and minute": (
        "test_guesses_in_one_document_are_counted_separately"
    ),
    "open sessions of an API key; beyond it the oldest ones end": (
        "test_beyond_the_most_sessions_of_a_key_its_oldest_ones_end"
    ),
    "accounts of an organisation that are staged and not created": (
        "test_beyond_the_quota_only_accounts_that_are_staged_already_are_staged"
    ),
    "time that a request waits for its turn in a web process while other organisations are there": (
        "test_beside_others_a_request_that_waits_too_long_is_refused_and_alone_it_is_not"
    ),
    "threads of a web process that an organisation leaves to others, even while it is alone": (
        "test_an_organisation_leaves_threads_to_others"
    ),
    "wrong passwords of the console, for each name from one address and minute": (
        "test_too_many_wrong_passwords_are_throttled_by_name_and_address_and_lock_nobody_else_out"
    ),
    "the same for one address, whatever the names": "test_an_address_that_tries_many_names_is_throttled",
    "logins of the console whose password is checked, or which wait for that, in a web process": (
        "test_many_logins_at_once_take_the_memory_of_one_and_few_wait"
    ),
    "the same for one address": "test_many_logins_at_once_take_the_memory_of_one_and_few_wait",
    "accounts that are processed at once": "test_beyond_the_limit_the_answer_is_429_with_retry_after",
    "time that a process request waits": (
        "test_without_a_worker_in_time_the_answer_is_429_and_the_attempt_is_withdrawn"
    ),
    "file after decompression": (
        "test_an_upload_beyond_a_limit_is_413_with_a_code_of_its_own_and_leaves_nothing"
    ),
    "file as sent, if it has a `Content-Length`": "test_the_largest_allowed_file_is_accepted",
    "lines of a file, blank ones included": "test_the_largest_allowed_file_is_accepted",
    "bytes after decompression for each byte sent, from 10 MB on": (
        "test_an_upload_beyond_a_limit_is_413_with_a_code_of_its_own_and_leaves_nothing"
    ),
    "bytes of a line": "test_a_line_that_is_too_long_fails_without_its_text",
    "time that a line of added data is deferred": (
        "test_lines_wait_for_an_account_that_is_being_created_but_not_for_ever"
    ),
    "uploads of an organisation at once": (
        "test_an_organisation_has_as_many_uploads_as_it_may_and_others_have_theirs"
    ),
    "batches of an organisation that have not ended": (
        "test_a_file_is_refused_before_it_is_read_unless_its_batch_exists"
    ),
    "bytes of the lines of an organisation": "test_bytes_of_lines_count_until_they_are_removed",
    "disk for uploads": "test_a_full_disk_is_503_and_leaves_nothing",
    "time of a statement for a request that cannot tell whether its client is still there": (
        "test_other_statements_of_requests_end_after_ten_seconds"
    ),
}


def _rows() -> dict[str, tuple[str, str]]:
    """Return the default and the code of each bound of the page that a request or a file can reach."""
    page, _, _ = (ROOT / "docs/limits.md").read_text().partition("## Shares")
    cells = [[cell.strip() for cell in it.strip("| ").split(" | ")] for it in page.splitlines()]
    rows = {
        it[0]: (it[1], it[3].strip("`")) for it in cells if len(it) == 4 and it[0] not in ("bound", "---")
    }
    return rows


_UNITS = {"MB": 1_000_000, "KiB": 1_024}


@pytest.mark.parametrize("what", _AT)
def test_a_bound_of_the_page_holds_exactly(supplier: SupplierClient, what: str) -> None:
    shown, code = _rows()[what]
    number, _, unit = shown.partition(";")[0].partition(" ")
    most = int(number.replace(",", "")) * _UNITS.get(unit, 1)
    for size, is_beyond in ((most, False), (most + 1, True)):
        answer = _AT[what](supplier, size)
        assert (f'"{code}"' in answer.text or f"'{code}'" in answer.text) == is_beyond, (
            size,
            answer.text[:500],
        )


def test_every_bound_of_the_page_is_reached_by_a_test() -> None:
    assert not _AT.keys() & _ELSEWHERE.keys()
    assert _AT.keys() | _ELSEWHERE.keys() == _rows().keys()
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    pages = {what: it for what, it in _ELSEWHERE.items() if it.endswith(".md")}
    assert [it for it in {*_ELSEWHERE.values()} - {*pages.values()} if f"def {it}(" not in tests] == []
    for what, page in pages.items():
        assert _rows()[what][1] in (ROOT / "tests/transcripts" / page).read_text(), what

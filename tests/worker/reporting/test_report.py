"""The report of a supplier or a batch: its figures, and a page that stands alone and has nothing personal."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from migration_service.services.reporting.report import Report, make_report
from migration_service.services.reporting.report_page import read_stylesheet, render_report
from migration_service.services.reporting.report_subject import find_subject
from support.batch_client import BatchClient
from support.factories import json_of
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient
from support.wave_client import EVENING, NIGHT, WaveClient

pytestmark = pytest.mark.usefixtures("neighbour")

#: Values of customers and payloads that must not be on a page.
SECRETS = ("Zwartendijk", "not-a-number-0612", "unheard@example.org", "Verborgenlaan")


def _book(batches: BatchClient) -> list[Any]:
    """Return five sound accounts, two with a telephone number that is none, and a line that is no JSON."""
    accounts = batches.supplier.accounts(7)
    for account in accounts:
        account["customers"] = [{"family_name": SECRETS[0], "email": SECRETS[2]}]
        account["billing_address1"] = SECRETS[3]
        account["unknown_occupier"] = "false"
    for account in accounts[5:]:
        account["customers"][0]["mobile"] = SECRETS[1]
        account[f"field of {SECRETS[0]}"] = 1
    return [*accounts, b"no JSON"]


def _report(supplier: SupplierClient, target: str, wave: int | None = None) -> Report:
    with supplier.Session.begin() as session:
        subject = find_subject(session, target, organisation_id=None, wave=wave)
    return make_report(supplier.Session, subject)


class _Page(HTMLParser):
    """The tags of a page, and its text without the stylesheet."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._in_style = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self.text += data


def test_a_plan_and_its_waves_are_reported(
    waves: WaveClient, undos: UndoClient, supplier: SupplierClient
) -> None:
    waves.stage(6)
    plan = waves.plan({"name": "Pilot", "sample": 4, "window": NIGHT}, {"rest": True}, name="Spring", seed=7)
    waves.now = EVENING
    waves.run()
    assert waves.act(plan, 1, "approve", reason="Known rounding.").status_code == 200
    first, both = _report(supplier, plan["plan_id"], 1), _report(supplier, plan["plan_id"])
    of_batch = _report(supplier, plan["waves"][1]["batch_id"])
    assert [[wave.number for wave in it.waves] for it in (first, both, of_batch)] == [[1], [1, 2], [2]]
    assert [(it.verdict.sent.sent, it.verdict.sent.created) for it in (first, both)] == [(4, 4), (6, 4)]
    text = _Page(render_report(first)).text
    for shown in (
        *("Wave 1 of the plan Spring", "Pilot", "22:00 to 00:00 UTC, every day, from 2026-03-02"),
        *("APPROVED", "Known rounding.", "How wave 1 was drawn", "Seed 7", "Decision after the wave"),
    ):
        assert shown in text
    assert "Known rounding." not in _Page(render_report(of_batch)).text

    undo_id = undos.start(wave={"plan_id": plan["plan_id"], "number": 1}, reason="Wrong tariff.")
    holds = "Accounts are being undone."
    assert holds in _Page(render_report(_report(supplier, plan["plan_id"]))).text
    undos.work(undo_id)
    text = _Page(render_report(_report(supplier, plan["plan_id"]))).text
    assert ", 4 undone" in text
    assert "Wrong tariff." in text
    assert holds not in text


def test_a_supplier_is_reported_with_its_evidence(batches: BatchClient) -> None:
    supplier, book = batches.supplier, _book(batches)
    number = book[5]["external_account_number"]
    first = batches.run(book, mode="dry-run", file_name="book.ndjson")
    second = batches.run(book)
    supplier.put(f"/batches/{first['batch_id']}/control-totals/", {"accounts": 9})
    body = {"external_account_numbers": [number], "reason": "Moved out before March."}
    supplier.post(f"/reconciliation/{supplier.code}/acknowledgements/", body)
    report = _report(supplier, supplier.code)
    assert [(it.mode, it.lines, it.done, it.failed) for it in report.trend] == [
        ("dry-run", 8, 8, 3),
        ("import", 8, 8, 3),
    ]
    assert report.trend[0].codes == [("invalid_phone_number", 2), ("parse_error", 1)]
    assert ([it.reason for it in report.acknowledged], report.all_acknowledged) == ([body["reason"]], 1)
    assert report.verdict.book is not None
    refused = {it.measure: [it.refused, it.acknowledged] for it in report.verdict.book.totals}
    assert refused["accounts"] == [3, 1]
    assert refused["statements"][0] > refused["statements"][1] > 0
    page = _Page(render_report(report))
    for shown in (
        *(first["file_sha256"], second["file_sha256"], "book.ndjson", "1 differ", "not given"),
        *(number, "Moved out before March.", "Trend of the rehearsals", "37.5 %", "Signed", "EUR"),
    ):
        assert shown in page.text
    assert page.tags.count("main") == 1
    assert 'counter(page) " of " counter(pages)' in read_stylesheet()


def test_of_a_batch_that_was_retried_only_what_was_done_again_has_a_rate(batches: BatchClient) -> None:
    batch_id = batches.run(_book(batches))["batch_id"]
    before = _report(batches.supplier, batch_id).rates
    answer = batches.supplier.post(f"/batches/{batch_id}/retry-failed/?all=true")
    batches.work()
    after = _report(batches.supplier, batch_id).rates
    assert before
    assert after
    assert (sum(before.done), sum(after.done)) == (8, json_of(answer)["retried"])
    assert before.until < after.since


def test_the_page_stands_alone_and_has_nothing_personal(batches: BatchClient) -> None:
    dry_run = batches.run(_book(batches), profile="strict", mode="dry-run")["batch_id"]
    batches.run(_book(batches))
    for target in (dry_run, batches.supplier.code):
        report = _report(batches.supplier, target)
        page = render_report(report)
        assert "invalid_phone_number" in page
        assert [secret for secret in SECRETS if secret in page] == []
        _check_that_it_stands_alone(report)


def _check_that_it_stands_alone(report: Report) -> None:
    page = _Page(render_report(report))
    assert {"style", "svg", "rect", "table"} < set(page.tags)
    assert not {"script", "link", "img", "iframe", "form", "object"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href")]
    stylesheet = read_stylesheet()
    assert "size: A4" in stylesheet
    assert not re.search(r"url\(|@import|<", stylesheet)
    linked = _Page(render_report(report, stylesheet="/console/report.css"))
    assert ("href", "/console/report.css") in linked.attributes
    assert "style" not in linked.tags
    assert linked.text == page.text


def test_the_interface_answers_the_page(batches: BatchClient) -> None:
    supplier, waves = batches.supplier, WaveClient(batches)
    waves.stage(1)
    plan_id = waves.plan({"rest": True})["plan_id"]
    for path, text in ((supplier.code, supplier.code), (plan_id, plan_id), (f"{plan_id}/?wave=1", plan_id)):
        answer = supplier.get(f"/reports/{path}" if "?" in path else f"/reports/{path}/")
        assert (answer.status_code, answer.mimetype) == (200, "text/html")
        assert answer.text.startswith("<!DOCTYPE html>")
        assert text in answer.text
    for path, status, code in (
        ("NOBODY/", 404, "import_supplier_not_found"),
        (f"{plan_id}/?wave=2", 404, "wave_not_found"),
        (f"{supplier.code}/?wave=1", 404, "wave_plan_not_found"),
        (f"{plan_id}/?wave=x", 400, "request_failed_validation"),
    ):
        refused = supplier.get(f"/reports/{path}")
        assert (refused.status_code, (refused.json or {})["code"]) == (status, code)

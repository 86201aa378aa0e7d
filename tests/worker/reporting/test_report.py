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


def _report(supplier: SupplierClient, target: str) -> Report:
    with supplier.Session.begin() as session:
        subject = find_subject(session, target, organisation_id=None)
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
        alone = _Page(page)
        assert {"style", "svg", "rect", "table"} < set(alone.tags)
        assert not {"script", "link", "img", "iframe", "form", "object"} & set(alone.tags)
        assert not [it for it, _ in alone.attributes if it.startswith("on") or it in ("src", "href")]
        linked = _Page(render_report(report, stylesheet="/console/report.css"))
        assert ("href", "/console/report.css") in linked.attributes
        assert "style" not in linked.tags
        assert linked.text == alone.text
    stylesheet = read_stylesheet()
    assert "size: A4" in stylesheet
    assert 'counter(page) " of " counter(pages)' in stylesheet
    assert not re.search(r"url\(|@import|<", stylesheet)

"""Lists of the console: a full page leads to the next one, and the last page to none."""

import re
from html import unescape
from types import ModuleType

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import batches as batches_view
from migration_service.blueprints.console.pages import emails, findings, undo
from migration_service.models import Account, Customer, CustomerEmail
from support.batch_client import BatchClient
from support.console_client import ConsoleClient
from support.supplier_client import SupplierClient


def _read(console: ConsoleClient, path: str, row: str) -> list[list[str]]:
    """Return the rows of each page, from the first to the last one."""
    pages = []
    while True:
        page = console.see(path)
        pages.append(re.findall(row, page))
        following = re.search(r'href="([^"]*)" rel="next"', page)
        if following is None:
            return pages
        path = unescape(following[1]).removeprefix("/console")


@pytest.fixture
def pages_of_lists(batches: BatchClient, administrator: ConsoleClient) -> None:
    """Three batches and three undos."""
    accounts = batches.supplier.accounts(3)
    batches.run(accounts, name="all")
    for name, account in zip(("Alpha", "Beta", "Gamma"), accounts, strict=True):
        batches.start([account], "validate", name=name)
        page = f"/suppliers/{batches.supplier.code}/accounts/{account['external_account_number']}/undo/"
        administrator.send(page, {"reason": name})


@pytest.mark.usefixtures("pages_of_lists")
@pytest.mark.parametrize(("path", "module"), [("/batches/", batches_view), ("/undos/", undo)])
def test_batches_and_undos_are_listed_in_pages(
    administrator: ConsoleClient,
    batches: BatchClient,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    module: ModuleType,
) -> None:
    for size, pages in ((2, [["Gamma", "Beta"], ["Alpha"]]), (3, [["Gamma", "Beta", "Alpha"]])):
        monkeypatch.setattr(module, "PAGE", size)
        found = _read(administrator, f"{path}?supplier={batches.supplier.code}", ">(Alpha|Beta|Gamma)<")
        assert [page for page in found if page] == pages


@pytest.mark.usefixtures("pages_of_lists")
def test_lists_have_nothing_of_another_supplier(
    administrator: ConsoleClient, another: SupplierClient
) -> None:
    for page in ("undos", "batches", "waves"):
        shown = administrator.see(f"/{page}/?supplier={another.code}")
        assert not re.search("Alpha|Beta|Gamma", shown), page


def test_lines_are_listed_in_pages(
    administrator: ConsoleClient, batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = [it | {"customers": [{"landline": "no number"}]} for it in batches.supplier.accounts(3)]
    batch_id = batches.run(faulty, "validate")["batch_id"]
    for page in ("lines/", "codes/invalid_phone_number/"):
        for size, pages in ((2, [["1", "2"], ["3"]]), (3, [["1", "2", "3"]])):
            monkeypatch.setattr(findings, "PAGE", size)
            path = f"/batches/{batch_id}/{page}"
            assert _read(administrator, path, rf"/batches/{batch_id}/lines/(\d+)/") == pages
        for after, rest in (("2", [["3"]]), ("2.0", pages)):
            assert _read(administrator, f"{path}?after={after}", r"/lines/(\d+)/") == rest


@pytest.mark.usefixtures("account")
def test_emails_are_listed_in_pages(
    administrator: ConsoleClient, sessions: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    with sessions.begin() as session:
        owner = session.scalars(select(Account.id)).one()
        for error in ("Alpha", "Beta", "Gamma"):
            customer = Customer(account_pk=owner, position=9)
            session.add(customer)
            session.flush()
            session.add(CustomerEmail(customer_pk=customer.id, error=error))
            session.flush()
    for size, pages in ((2, [["Gamma", "Beta"], ["Alpha"]]), (3, [["Gamma", "Beta", "Alpha"]])):
        monkeypatch.setattr(emails, "PAGE", size)
        assert _read(administrator, "/emails/", "Alpha|Beta|Gamma") == pages
    assert "Gamma" in administrator.see(f"/emails/?before={'9' * 30}")

"""Lists of the console: a full page leads to the next one, and the last page to none."""

import re
from html import unescape
from uuid import uuid4

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.requests import paging
from migration_service.models import Account, Acknowledgement, Customer, CustomerEmail
from support.batch_client import BatchClient
from support.console_client import ConsoleClient
from support.supplier_client import SupplierClient

_NAMES = ("Alpha", "Beta", "Gamma")
#: Page sizes, with the pages of a list of three, newest first.
_PAGES = ((2, [["Gamma", "Beta"], ["Alpha"]]), (3, [["Gamma", "Beta", "Alpha"]]))
#: The ids of rows are 64-bit numbers.
_FAR = 10**18
#: What nobody was given as a cursor.
_MADE_UP = ("0x1", "-1", "2.0", "٣", "9" * 19, "9" * 30, "%00", "%ff", "2026-01-01T00:00:00Z|%00")


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


def _require_pages(console: ConsoleClient, patch: pytest.MonkeyPatch, path: str, row: str) -> None:
    for size, pages in _PAGES:
        patch.setattr(paging, "SHOWN", size)
        assert [it for it in _read(console, path, row) if it] == pages
        join = "&" if "?" in path else "?"
        for cursor in _MADE_UP:
            assert [it for it in _read(console, f"{path}{join}cursor={cursor}", row) if it] == pages, cursor


@pytest.fixture
def pages_of_lists(batches: BatchClient, administrator: ConsoleClient) -> None:
    """Three batches and three undos."""
    accounts = batches.supplier.accounts(3)
    batches.run(accounts, name="all")
    for name, account in zip(_NAMES, accounts, strict=True):
        batches.start([account], "validate", name=name)
        page = f"/suppliers/{batches.supplier.code}/accounts/{account['external_account_number']}/undo/"
        administrator.send(page, {"reason": name})


@pytest.mark.usefixtures("pages_of_lists")
def test_batches_and_undos_are_listed_in_pages(
    administrator: ConsoleClient,
    batches: BatchClient,
    another: SupplierClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = batches.supplier.code
    _require_pages(administrator, monkeypatch, f"/batches/?supplier={code}", ">(Alpha|Beta|Gamma)<")
    _require_pages(administrator, monkeypatch, f"/undos/?supplier={code}", ">(Alpha|Beta|Gamma)<")
    for page in ("undos", "batches", "waves"):
        shown = administrator.see(f"/{page}/?supplier={another.code}")
        assert not re.search("Alpha|Beta|Gamma", shown), page


def test_lines_are_listed_in_pages(
    administrator: ConsoleClient, batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = [it | {"customers": [{"landline": "no number"}]} for it in batches.supplier.accounts(3)]
    batch_id = batches.run(faulty, "validate")["batch_id"]
    for page in ("lines/", "codes/invalid_phone_number/"):
        path, row = f"/batches/{batch_id}/{page}", rf"/batches/{batch_id}/lines/(\d+)/"
        for size, pages in ((2, [["1", "2"], ["3"]]), (3, [["1", "2", "3"]])):
            monkeypatch.setattr(paging, "SHOWN", size)
            assert _read(administrator, path, row) == pages
        for cursor, rest in (("2", [["3"]]), ("2.0", pages), (str(_FAR), [[]])):
            assert _read(administrator, f"{path}?cursor={cursor}", row) == rest


@pytest.mark.usefixtures("account")
def test_rows_are_listed_in_pages_however_large_their_ids_are(
    administrator: ConsoleClient,
    supplier: SupplierClient,
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = supplier.post("/webhooks/", {"url": "https://billing.example.com/"})
    webhook = f"/setup/webhooks/{answer.get_json()['webhook_id']}/"
    with sessions.begin() as session:
        owner = session.scalars(select(Account)).one()
        for row_id, name in enumerate(_NAMES, _FAR):
            session.add(customer := Customer(account_pk=owner.id, position=9))
            session.flush()
            session.add(CustomerEmail(id=row_id, organisation_id=1, customer_pk=customer.id, error=name))
            session.add(
                Acknowledgement(
                    id=row_id,
                    import_supplier_id=owner.import_supplier_id,
                    batch_id=uuid4(),
                    line_number=1,
                    reason=name,
                    acknowledged_by="",
                )
            )
    for row_id, name in enumerate(_NAMES, _FAR):
        administrator.act(f"{webhook}test/")
        with sessions.begin() as session:
            values = {"id": row_id, "name": name, "far": _FAR}
            session.execute(
                text("UPDATE webhook_delivery SET id = :id, event_type = :name WHERE id < :far"), values
            )
    for path in ("/emails/", f"/suppliers/{supplier.code}/acknowledgements/", webhook):
        _require_pages(administrator, monkeypatch, path, ">(Alpha|Beta|Gamma)<")

"""Lists of the console come in pages, and errors are pages."""

import csv
import logging
import re
from html import unescape
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console import access, lists
from migration_service.blueprints.console.display import DASH
from migration_service.blueprints.requests import paging
from migration_service.errors import TooManyUploadsError
from migration_service.models import Account, Acknowledgement, Customer, CustomerEmail
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, main_of
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


def _require_pages(console: ConsoleClient, patch: pytest.MonkeyPatch, path: str) -> None:
    row = ">(Alpha|Beta|Gamma)<"
    for size, pages in _PAGES:
        patch.setattr(paging, "SHOWN", size)
        patch.setattr(lists, "PAGE", size)
        assert [it for it in _read(console, path, row) if it] == pages
        file = re.search(r'href="/console([^"]*/list\.csv[^"]*)"', console.see(path))
        assert file, path
        head, *rows = csv.reader(console.see(unescape(file[1])).splitlines())
        assert [it for row in rows for it in row if it in _NAMES] == [it for page in pages for it in page]
        assert {len(row) for row in rows} == {len(head)}
        join = "&" if "?" in path else "?"
        for cursor in _MADE_UP:
            assert [it for it in _read(console, f"{path}{join}cursor={cursor}", row) if it] == pages, cursor


def test_batches_and_undos_are_listed_in_pages(
    administrator: ConsoleClient,
    batches: BatchClient,
    another: SupplierClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accounts, code = batches.supplier.accounts(3), batches.supplier.code
    batches.run(accounts, name="all")
    for name, account in zip(_NAMES, accounts, strict=True):
        batches.start([account], "validate", name=name)
        page = f"/suppliers/{code}/accounts/{account['external_account_number']}/undo/"
        administrator.send(page, {"reason": name})
    _require_pages(administrator, monkeypatch, f"/batches/?supplier={code}")
    _require_pages(administrator, monkeypatch, f"/undos/?supplier={code}")
    for page in ("undos", "batches", "waves"):
        shown = administrator.see(f"/{page}/?supplier={another.code}")
        assert not re.search("Alpha|Beta|Gamma", shown), page
        assert "list.csv" not in shown, "there is nothing in the list"


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


def test_what_is_open_is_listed_in_pages(
    administrator: ConsoleClient, batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged, refused = batches.supplier.accounts(2)
    batches.run([staged], "stage")
    batch_id = batches.run([refused | {"customers": [{}]}, b"{no json"])["batch_id"]
    batches.run([{"external_account_number": "nobody"}], "import", kind="notes")
    path, row = f"/suppliers/{batches.supplier.code}/open/", 'data-label="Account">(?:<a [^>]*>)?([^<]*)'
    numbers = [staged["external_account_number"], refused["external_account_number"], DASH, "nobody"]
    everything = [numbers[:3], numbers[3:]]
    for size, pages in ((1, [[it] for it in numbers]), (3, everything)):
        monkeypatch.setattr(paging, "SHOWN", size)
        assert [[it for it in page if it in numbers] for page in _read(administrator, path, row)] == pages
    far = (f"line.{batch_id}.{'9' * 30}", f"line.{UUID(int=0)}.1", "staged.9", "refused.9")
    for cursor in (*_MADE_UP, "line.1.2", f"line.{batch_id}.x", "staged.%00", "staged.%ff", *far):
        last = _read(administrator, f"{path}?cursor={cursor}", row)[-1]
        assert "nobody" in last, cursor


@pytest.mark.usefixtures("account")
def test_rows_are_listed_in_pages_however_large_their_ids_are(
    administrator: ConsoleClient,
    supplier: SupplierClient,
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sessions.begin() as session:
        owner = session.scalars(select(Account)).one()
        for row_id, name in enumerate(_NAMES, _FAR):
            session.add(customer := Customer(account_pk=owner.id, position=9))
            session.flush()
            session.add(
                CustomerEmail(
                    id=row_id, organisation_id=1, import_supplier_id=1, customer_pk=customer.id, error=name
                )
            )
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
    for path in ("/emails/", f"/suppliers/{supplier.code}/acknowledgements/"):
        _require_pages(administrator, monkeypatch, path)


def _fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr(access, "find_operator_session", fail)


_AWAY = "Not available The database does not answer. Try again in a moment. Go to the overview"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OperationalError("SELECT", {}, Exception()), 503, _AWAY),
        (PoolTimeoutError(), 503, _AWAY),
        (TooManyUploadsError(), 429, "Too many requests "),
    ],
)
def test_what_hinders_a_page_is_said_to_whoever_was_logged_in(
    administrator: ConsoleClient, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, said: str
) -> None:
    _fail_with(error, monkeypatch)
    answer, part = administrator.get("/work/"), administrator.get("/work/?part=1")
    assert (answer.status_code, part.status_code) == (status, status)
    assert main_of(answer.text).startswith(said)
    assert "<main" not in part.text
    assert status != 503 or "The database does not answer." in part.text


def test_what_nobody_expected_is_a_page_too_and_is_in_the_log(
    administrator: ConsoleClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _fail_with(ZeroDivisionError("of the test"), monkeypatch)
    with pytest.raises(ZeroDivisionError, match="of the test"):  # tests see it themselves
        administrator.get("/work/")
    console = administrator.app.extensions["migration_service_console"]
    monkeypatch.setattr(console, "testing", False)
    caplog.clear()
    answer = administrator.get("/work/")
    assert answer.status_code == 500
    sentence = "An unexpected error. Nothing was changed. The log says more."
    assert main_of(answer.text) == f"Something went wrong {sentence} Go to the overview"
    (logged,) = (it for it in caplog.records if it.levelno == logging.ERROR)
    assert logged.exc_info
    assert logged.exc_info[0] is ZeroDivisionError


def test_a_form_that_is_too_large_or_no_form_is_the_clients_mistake(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    new = f"/suppliers/{batches.supplier.code}/waves/new/"
    form = administrator.tokens(new)
    for size, status in ((990_000, 400), (1_000_001, 413)):
        assert administrator.post(new, {**form, "name": "n" * size}).status_code == status
    path = f"/console/suppliers/{batches.supplier.code}/upload/"
    for kind in ("text/plain; boundary=b", "multipart/form-data", None):
        answer = administrator.client.post(path, data=b"{}", content_type=kind)
        assert answer.status_code == 400
        said = "That did not work Expected a form with a file. Go to the overview"
        assert main_of(answer.text) == said

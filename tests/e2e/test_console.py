"""The console in a real browser: a book from the upload to the import, and every page for everybody."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from browser import Visitor, needs_chromium, open_browser
from drill.scene import TEAM, Scene
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service_local.samples import generate_accounts

pytestmark = needs_chromium

LINES, BROKEN = 500, 0.03


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A running Chromium."""
    with open_browser() as browser:
        yield browser


@pytest.fixture
def code(scene: Scene) -> Iterator[str]:
    """The code of a new supplier, of an organisation of its own."""
    code = f"BOOK_{secrets.token_hex(4).upper()}"
    engine = make_engine(scene.database_url, pool_size=1, max_overflow=0, application_name="tests")
    with make_sessionmaker(engine).begin() as session:
        organisation = create_organisation(session, f"Organisation of {code}")
        create_import_supplier(session, code=code, organisation_name=organisation.name)
    yield code
    engine.dispose()


def _book(code: str, *, broken: float) -> list[bytes]:
    # Every supplier has other numbers, so that a search finds one account.
    accounts = generate_accounts(LINES, supplier=code, seed=crc32(code.encode()), broken_share=broken)
    return [msgspec.json.encode(account) for account in accounts]


def _log_in(visitor: Visitor, scene: Scene) -> None:
    visitor.log_in("admin", (scene.home / "console-password").read_text().strip())


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_a_book_is_checked_rehearsed_corrected_imported_reconciled_and_undone(
    scene: Scene, browser: Browser, code: str, tmp_path: Path, script: bool
) -> None:
    file = tmp_path / "book.ndjson"
    file.write_bytes(b"\n".join(_book(code, broken=BROKEN)))
    base = f"{scene.address.url}/console"
    with Visitor.arrive(browser, base, script=script) as visitor:
        _log_in(visitor, scene)
        _upload(visitor, code, file, "validate")
        failed = _wait_for_end(visitor)
        assert 5 <= failed <= 30

        _go_on(visitor, "Rehearse these lines")
        assert _wait_for_end(visitor) == failed
        rehearsal = visitor.page.url

        _follow_an_error_to_its_line(visitor)
        visitor.page.goto(rehearsal)
        with visitor.page.expect_download() as downloading:
            visitor.page.click("text=Failed lines (NDJSON)")
        lines = Path(str(downloading.value.path())).read_bytes().splitlines()
        assert 0 < len(lines) <= failed

        visitor.page.goto(rehearsal)
        _go_on(visitor, "Import these lines")
        assert _wait_for_end(visitor) == failed

        corrected = tmp_path / "corrected.ndjson"
        corrected.write_bytes(_correct(code, lines))
        _upload(visitor, code, corrected, "import")
        assert _wait_for_end(visitor) == 0

        visitor.open(f"/suppliers/{code}/reconciliation/")
        expect(visitor.page.locator(".lead")).to_contain_text("very created account is as it was staged")

        _undo(visitor, code, str(_number(_book(code, broken=0)[0])))
        assert visitor.complaints == []


def _upload(visitor: Visitor, code: str, file: Path, step: str) -> None:
    visitor.open(f"/suppliers/{code}/upload/")
    visitor.page.check(f"#step-{step}")
    visitor.page.select_option("#team", TEAM)
    visitor.page.set_input_files("#file", file)
    visitor.page.click("text=Upload >> nth=-1")
    visitor.page.wait_for_url("**/batches/*/")
    expect(visitor.page.locator(".alert-success")).to_contain_text("The file has arrived")


def _go_on(visitor: Visitor, button: str) -> None:
    """Go on to the next step of the batch: the preview says how many lines it is about."""
    visitor.page.click(f"text={button}")
    expect(visitor.page.locator(".lead")).to_contain_text(f"{LINES} lines are imported")
    visitor.page.select_option("#team", TEAM)
    visitor.page.click("main form button")
    visitor.page.wait_for_url("**/batches/*/")


def _wait_for_end(visitor: Visitor) -> int:
    """Wait until the batch is over: the page moves by itself, or has a link. Return how many lines failed."""
    page = visitor.page
    if visitor.has_script:
        page.evaluate("window.seen = 'this very page'")
        expect(page.locator(".lead")).to_contain_text("COMPLETED", timeout=90_000)
        assert page.evaluate("window.seen") == "this very page"
    else:
        for _ in range(200):
            if "COMPLETED" in page.locator(".lead").inner_text():
                break
            page.wait_for_timeout(300)
            page.click("text=Refresh")
        expect(page.locator(".lead")).to_contain_text("COMPLETED")
    return int(page.locator(".lead").inner_text().split(", ")[1].split()[0])


def _follow_an_error_to_its_line(visitor: Visitor) -> None:
    """From the code to the path, the line, and the marked place, first masked and then not."""
    page = visitor.page
    page.locator("#errors ~ .table-wrap tbody a").first.click()
    page.locator("main tbody a.code").first.click()
    page.locator("main .table-wrap").last.locator("tbody a").first.click()
    expect(page.locator(".faults li").first).to_contain_text("What to do:")
    assert page.locator(".payload .badge").count() >= 1
    assert page.locator(".payload >> text=•••").count() > 0
    page.click("text=Show personal data")
    expect(page.locator("text=Personal data is shown for ten minutes.")).to_be_visible()
    assert page.locator(".payload >> text=•••").count() == 0


def _correct(code: str, lines: list[bytes]) -> bytes:
    """The accounts of the failed lines as they should have been."""
    good = {_number(line): line for line in _book(code, broken=0)}
    return b"\n".join(good[_number(line)] for line in lines)


def _number(line: bytes) -> Any:
    return msgspec.json.decode(line).get("external_account_number")


def _undo(visitor: Visitor, code: str, number: str) -> None:
    """Undo the import of one account, and see it pending again."""
    page = visitor.page
    visitor.open("/")
    page.fill("#find", number)
    page.press("#find", "Enter")
    page.wait_for_url(f"**/suppliers/{code}/accounts/{number}/")
    page.click("text=Undo the import")
    expect(page.locator(".lead")).to_contain_text("1 account is removed")
    page.fill("#reason", "A trial.")
    page.click("main form button")
    page.wait_for_url("**/undos/*/")
    for _ in range(200):
        if "COMPLETED" in page.locator(".lead").inner_text():
            break
        page.wait_for_timeout(300)
        page.reload()
    visitor.open(f"/suppliers/{code}/accounts/{number}/")
    expect(page.locator(".lead")).to_contain_text("is not created yet")


def _plan_waves(visitor: Visitor, code: str, folder: Path) -> str:
    """Stage three accounts, and plan two waves of them. Return the path of the plan."""
    file = folder / "staged.ndjson"
    file.write_bytes(b"\n".join(_book(code, broken=0)[20:23]))
    _upload(visitor, code, file, "stage")
    _wait_for_end(visitor)
    page = visitor.page
    visitor.open(f"/waves/?supplier={code}")
    page.click("text=Plan waves for")
    page.select_option("#team", TEAM)
    page.select_option("#waves-0-takes", "sample")
    page.fill("#waves-0-which", "1")
    page.select_option("#waves-1-takes", "rest")
    assert page.locator("text=Make this plan").count() == 0
    page.click("text=Show what this does")
    expect(page.locator(".found")).to_contain_text("2 accounts, started by hand")
    page.click("text=Make this plan")
    page.wait_for_url("**/waves/*/")
    return page.url.removeprefix(visitor.base)


@pytest.fixture
def pages(scene: Scene, browser: Browser, code: str, tmp_path: Path) -> list[str]:
    """The path of every page, of a supplier with a batch that has failed lines."""
    file = tmp_path / "book.ndjson"
    lines = _book(code, broken=0.5)[:20]
    file.write_bytes(b"\n".join(lines))
    with Visitor.arrive(browser, f"{scene.address.url}/console") as visitor:
        _log_in(visitor, scene)
        _upload(visitor, code, file, "import")
        _wait_for_end(visitor)
        batch = visitor.page.url.removeprefix(visitor.base)
        error = visitor.page.locator("#errors ~ .table-wrap tbody a").first.get_attribute("href") or ""
        visitor.open(f"{batch}lines/?status=FAILED")
        line = visitor.page.locator("main tbody a").first.get_attribute("href") or ""
        visitor.open(f"{batch}lines/?status=IMPORTED")
        number = visitor.page.locator("main tbody tr").first.locator("td").nth(1).inner_text()
        plan = _plan_waves(visitor, code, tmp_path)
    account = f"/suppliers/{code}/accounts/{number}/"
    return [
        *("/waves/", f"/waves/?supplier={code}", f"/suppliers/{code}/waves/new/", plan, f"{plan}1/"),
        *(f"{plan}1/start/", f"{plan}1/stop/"),
        *("/", f"/suppliers/{code}/", f"/suppliers/{code}/reconciliation/", f"/suppliers/{code}/upload/"),
        *("/batches/", batch, f"{batch}lines/", f"{batch}retry/?everything=1", f"{batch}compare/"),
        *(error.removeprefix("/console"), line.removeprefix("/console"), account, f"{account}undo/"),
        *("/batches/?kind=notes&state=RUNNING", f"{batch}retry/", "/setup/vendors/new/"),
        *("/accounts/", "/accounts/?q=nobody", "/work/", "/limit/", "/health/", "/emails/", "/undos/"),
        *("/audit/", "/audit/?kind=everything", "/setup/keys/", "/setup/keys/new/", "/setup/organisations/"),
        *("/setup/teams/", "/setup/vendors/", "/setup/operators/", "/setup/operators/new/", "/password/"),
        *("/setup/operators/admin/password/", f"{batch}brake/", f"/suppliers/{code}/status/"),
        "/nowhere/",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
        {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}, "locale": "nl-NL"},
    ],
    ids=["light", "dark, Dutch, on a phone"],
)
def test_every_page_can_be_used_by_everybody_and_complains_of_nothing(
    scene: Scene, browser: Browser, pages: list[str], options: dict[str, Any]
) -> None:
    with Visitor.arrive(browser, f"{scene.address.url}/console", **options) as visitor:
        visitor.open("/login/")
        barriers = visitor.find_barriers()
        _log_in(visitor, scene)
        for path in pages:
            visitor.open(path)
            barriers += visitor.find_barriers()
            barriers += [] if visitor.fits() else [f"{path} is wider than the window"]
        assert barriers == []
        # Chromium itself reports the status of the page that does not exist.
        assert [it for it in visitor.complaints if "/nowhere/" not in it] == []

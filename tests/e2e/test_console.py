"""The console in a real browser: every page can be used by everybody."""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import Browser, expect

from drill.scene import TEAM, Scene
from migration_service.blueprints.console.application import register_pages
from migration_service.blueprints.requests.application import NumberConverter
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.vendors import create_payment_vendor
from support.browser import DARK_PHONE, LIGHT, ZOOMED, Visitor, needs_chromium
from support.console_steps import PATIENCE, book_of, log_in, upload, wait_for_end
from support.webhook_rows import make_delivery

pytestmark = needs_chromium

LINES = 300


@pytest.fixture
def code(scene: Scene) -> Iterator[str]:
    """The code of a new supplier, of an organisation of its own that has a key, a vendor and a webhook."""
    code = f"BOOK_{secrets.token_hex(4).upper()}"
    engine = make_engine(scene.database_url, pool_size=1, max_overflow=0, application_name="tests")
    with make_sessionmaker(engine).begin() as session:
        organisation = create_organisation(session, f"Organisation of {code}")
        create_import_supplier(session, code=code, organisation_name=organisation.name)
        issue_api_key(session, organisation_name=organisation.name)
        create_payment_vendor(
            session,
            f"Vendor of {code}",
            kind=VendorKind.HTTP,
            url="https://gateway.example/v2",
            organisation_name=organisation.name,
        )
        make_delivery(session, organisation.id, code)
    yield code
    engine.dispose()


def _undo(visitor: Visitor, code: str, number: str) -> None:
    """Undo the import of one account, and see it pending again."""
    page = visitor.page
    visitor.open("/")
    page.fill("#find", number)
    page.press("#find", "Enter")
    page.wait_for_url(f"**/suppliers/{code}/accounts/{number}/")
    page.click("main .more summary")
    page.click("text=Undo the import")
    expect(page.locator(".lead")).to_contain_text("1 account is removed")
    page.fill("#reason", "A trial.")
    page.click("main form button")
    page.wait_for_url("**/undos/*/")
    for _ in range(90):
        if "COMPLETED" in page.locator(".lead").inner_text():
            break
        page.wait_for_timeout(1_000)
        page.reload()
    visitor.open(f"/suppliers/{code}/accounts/{number}/")
    expect(page.locator(".lead")).to_contain_text("is not created yet")


def _plan_waves(visitor: Visitor, code: str, *waves: str, **fields: str) -> str:
    """Plan waves of the pending accounts, of one account but for `rest`. Return the path of the plan."""
    page = visitor.page
    visitor.open(f"/waves/?supplier={code}")
    page.click("text=Plan waves for")
    page.select_option("#team", TEAM)
    for index, takes in enumerate(waves):
        page.select_option(f"#waves-{index}-takes", takes)
        page.fill(f"#waves-{index}-which", "" if takes == "rest" else "1")
    for name, value in fields.items():
        page.fill(f"#{name}", value)
    assert page.locator("text=Make this plan").count() == 0
    page.click("text=Show what this does")
    expect(page.locator(".found dt")).to_have_count(len(waves) + 1)
    page.click("text=Make this plan")
    page.wait_for_url("**/waves/*/")
    return page.url.removeprefix(visitor.base)


def _certify(visitor: Visitor, code: str) -> str:
    """Make a certificate of the comparison that is kept. Return the path of its page."""
    page = visitor.page
    visitor.open(f"/suppliers/{code}/reconciliation/")
    page.click("text=Compare all created accounts")
    expect(page.locator("text=Compare what has changed")).to_be_visible(timeout=PATIENCE)
    visitor.open(f"/suppliers/{code}/certificates/new/")
    page.click("main form button")
    link = page.locator("main tbody a").first
    for _ in range(90):
        if link.count():
            break
        page.wait_for_timeout(1_000)
        page.reload()
    return (link.get_attribute("href") or "").removeprefix("/console")


def _acknowledge(visitor: Visitor, code: str) -> None:
    """Acknowledge the first refused account of the list."""
    page = visitor.page
    visitor.open(f"/suppliers/{code}/open/")
    page.locator("main tbody input[type=checkbox]").first.check()
    page.click("text=Acknowledge those chosen")
    page.fill("#reason", "It stays with the supplier.")
    page.click("text=Acknowledge 1")
    expect(page.locator(".alert-success")).to_contain_text("1 account or line is acknowledged.")


@pytest.fixture
def pages(scene: Scene, browser: Browser, code: str, tmp_path: Path) -> list[str]:
    """The path of every page, of a supplier with a batch that has failed lines, waves, and an undo."""
    file = tmp_path / "book.ndjson"
    lines = book_of(code, LINES, broken=0.5)[:20]
    file.write_bytes(b"\n".join(lines))
    with Visitor.arrive(browser, f"{scene.address.url}/console") as visitor:
        log_in(visitor, scene)
        upload(visitor, code, file, "import")
        wait_for_end(visitor)
        batch = visitor.page.url.removeprefix(visitor.base)
        error = visitor.page.locator("#errors ~ .table-wrap tbody a").first.get_attribute("href") or ""
        visitor.open(f"{batch}lines/?status=FAILED")
        line = visitor.page.locator("main tbody a").first.get_attribute("href") or ""
        visitor.open(f"{batch}lines/?status=IMPORTED")
        number = visitor.page.locator("main tbody tr").first.locator("td").nth(1).inner_text()
        _acknowledge(visitor, code)
        certificate = _certify(visitor, code)
        _undo(visitor, code, number)
        undo = visitor.page.locator(".timeline a[href*='/undos/']").first.get_attribute("href") or ""
        file.write_bytes(b"\n".join(book_of(code, LINES, broken=0)[20:23]))
        upload(visitor, code, file, "stage")
        wait_for_end(visitor)
        later = visitor.page.url.removeprefix(visitor.base)
        plan = _plan_waves(visitor, code, "sample", "rest", start="22:00", end="06:00")
        visitor.open("/setup/vendors/")
        vendor = visitor.page.locator(f"tr:has-text('{code}') a").get_attribute("href") or ""
        visitor.open("/setup/teams/")
        team = visitor.page.locator("main tbody a[href$='/rename/']").first.get_attribute("href") or ""
        visitor.open("/setup/webhooks/")
        webhook = visitor.page.locator(f"tr:has-text('{code}') a").get_attribute("href") or ""
        visitor.page.goto(f"{visitor.base.removesuffix('/console')}{webhook}")
        delivery = visitor.page.locator("main tbody a").first.get_attribute("href") or ""
        visitor.open("/setup/keys/")
        key = visitor.page.locator(f"tr:has-text('{code}') a").last.get_attribute("href") or ""
    webhook, delivery = webhook.removeprefix("/console"), delivery.removeprefix("/console")
    account, supplier = f"/suppliers/{code}/accounts/{number}/", f"/suppliers/{code}/"
    tabs = ("meter-points", "ledgers", "statements", "notes", "data")
    return [
        *(f"{account}?tab={tab}" for tab in tabs),
        f"{supplier}receipt/accept/",
        *("/waves/", f"/waves/?supplier={code}", f"/suppliers/{code}/waves/new/", plan, f"{plan}1/"),
        *(
            f"{plan}1/{act}/"
            for act in ("start", "pause", "resume", "reconcile", "approve", "stop", "change")
        ),
        *(f"{batch}{act}/" for act in ("pause", "resume", "cancel", "undo", "replace", "repeat/import")),
        *(f"{supplier}sign-off/", f"{supplier}go-live/", f"{supplier}time-zone/", f"{batch}control-totals/"),
        *(
            f"{supplier}certificates/",
            f"{supplier}certificates/new/",
            certificate,
            f"{supplier}receipt/accept/",
            f"{supplier}ready/",
            f"{supplier}ready/backup_recent/accept/",
            f"{supplier}acknowledgements/",
            f"{supplier}open/",
            f"{supplier}acknowledgements/new/?batch={batch.split('/')[2]}",
        ),
        *(f"{supplier}emails/", "/suppliers/new/", f"{account}skip/", f"{account}unskip/"),
        *(undo.removeprefix("/console"), f"{undo.removeprefix('/console')}cancel/"),
        *(f"{later}compare/{batch.split('/')[2]}/", vendor.removeprefix("/console")),
        *(key.removeprefix("/console"), key.removeprefix("/console").replace("revoke", "roll")),
        *("/setup/webhooks/", "/setup/webhooks/new/", webhook, delivery, f"{delivery}redeliver/"),
        *(f"{webhook}{act}/" for act in ("change", "switch", "remove", "secret", "test", "redeliver")),
        *(team.removeprefix("/console"), team.removeprefix("/console").replace("rename", "remove")),
        *(f"{supplier}rename/", f"{supplier}remove/"),
        *("/setup/teams/new/", "/setup/organisations/new/", "/setup/operators/admin/role/"),
        "/setup/operators/admin/disable/",
        *("/", f"/suppliers/{code}/", f"/suppliers/{code}/reconciliation/", f"/suppliers/{code}/upload/"),
        *("/batches/", batch, f"{batch}lines/", f"{batch}retry/?everything=1", f"{batch}compare/"),
        *(error.removeprefix("/console"), line.removeprefix("/console"), account, f"{account}undo/"),
        *("/batches/?kind=notes&state=RUNNING", f"{batch}retry/", "/setup/vendors/new/"),
        *(
            "/accounts/",
            "/accounts/?q=nobody",
            "/accounts/?q=ean",
            "/work/",
            "/limit/",
            "/health/",
            "/emails/",
            "/undos/",
        ),
        *(
            "/accounts/?q=ean",
            "/audit/",
            "/audit/?kind=everything",
            "/setup/keys/",
            "/setup/keys/new/",
            "/setup/organisations/",
        ),
        *("/setup/teams/", "/setup/vendors/", "/setup/operators/", "/setup/operators/new/", "/password/"),
        *(
            "/setup/operators/admin/password/",
            f"{batch}brake/",
            f"/suppliers/{code}/status/",
        ),
    ]


#: Views that are no pages: files, and what leads to the identity provider.
NO_PAGES = {
    *("static", "assets.bootstrap", "assets.dark", "openid.begin", "openid.come_back"),
    *("downloads.failed_lines", "downloads.results", "comparison.accounts", "undo.outcomes"),
    *("downloads.hand_back", "suppliers.download_id_map", "suppliers.download_open", "certificates.download"),
    *("reports.of_supplier", "reports.of_batch", "reports.of_plan", "reports.of_wave", "audit.export"),
}


def _find_views(paths: list[str]) -> tuple[set[str], set[str]]:
    """Return the views that these paths open, and all that are pages."""
    app = Flask("console")
    app.url_map.converters["number"] = NumberConverter
    register_pages(app)
    rules = app.url_map.bind("localhost")
    views = {rule.endpoint for rule in app.url_map.iter_rules() if "GET" in (rule.methods or ())}
    return {str(rules.match(path.partition("?")[0])[0]) for path in paths}, views - NO_PAGES


def test_every_page_can_be_used_by_everybody_and_complains_of_nothing(
    scene: Scene, browser: Browser, pages: list[str]
) -> None:
    """Every page on a dark phone in Dutch, whose words are longer, and then in a large light window.

    What an earlier page had in the same place has the same colours. Styles do not change gradually, as axe
    would measure colours that are on their way.
    """
    options = DARK_PHONE | {"locale": "nl-NL", "reduced_motion": "reduce"}
    with Visitor.arrive(browser, f"{scene.address.url}/console", **options) as visitor:
        opened, views = _find_views(["/login/", *pages])
        assert opened == views
        visitor.open("/login/")
        seen: set[str] = set()
        barriers = _find_barriers_in_both_looks(visitor, seen)
        log_in(visitor, scene)
        for path in (*pages, "/nowhere/"):
            visitor.open(path)
            barriers += _find_barriers_in_both_looks(visitor, seen)
        batch = next(path for path in pages if re.fullmatch(r"/batches/[^/]{36}/", path))
        report = visitor.page.request.get(f"{visitor.base}{batch}report.html")
        assert report.status == 200
        visitor.page.goto("about:blank")  # a file has no policy of ours
        visitor.page.set_content(report.text())
        visitor.look(LIGHT)
        barriers += visitor.find_barriers()
        assert barriers == []
        # Chromium itself reports the status of the page that does not exist.
        assert [it for it in visitor.complaints if "/nowhere/" not in it] == []


#: How many blue, grey and red buttons a page shows. Rows of tables have their own.
_BUTTONS = """() => {
  const shown = (kind) => [...document.querySelectorAll(`main a.btn-${kind}, main summary.btn-${kind}`)]
    .filter((it) => !it.closest('table, .pager, .more > :not(summary)')).length;
  return [shown('primary'), shown('outline-secondary'), shown('outline-danger')];
}"""


def _find_barriers_in_both_looks(visitor: Visitor, seen: set[str]) -> list[str]:
    barriers = visitor.find_barriers()
    blue, grey, red = visitor.page.evaluate(_BUTTONS)
    if blue > 1 or grey > 3 or red:  # the third grey one is "More"
        barriers.append(f"{visitor.page.url} has {blue} blue buttons, {grey} grey ones and {red} red ones")
    barriers += [] if visitor.fits() else [f"{visitor.page.url} is wider than the phone"]
    visitor.look(ZOOMED)
    barriers += [] if visitor.fits() else [f"{visitor.page.url} is wider than a window at 200 %"]
    if new := visitor.places() - seen:
        seen |= new
        visitor.look(LIGHT)
        barriers += visitor.find_barriers(only_looks=True)
        barriers += [] if visitor.fits() else [f"{visitor.page.url} is wider than the window"]
    visitor.look(DARK_PHONE)
    return barriers

"""The console in a real browser: every page can be used by everybody."""

import re
import secrets
from io import BytesIO
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Browser

from drill.scene import TEAM, Scene
from migration_service.blueprints.console.application import register_pages
from migration_service.blueprints.requests.application import NumberConverter
from migration_service.services.access.api_keys import find_prefix, issue_api_key
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import create_operations_team
from migration_service_client import Client
from support.browser import DARK_PHONE, LIGHT, ZOOMED, Visitor, needs_chromium
from support.console_steps import book_of, log_in
from support.rows import make_webhook
from support.servers import wait_until

pytestmark = [needs_chromium, pytest.mark.long]

LINES = 300


@pytest.fixture
def pages(scene: Scene) -> list[str]:
    """The path of every page, of a supplier with a batch that has failed lines, waves, and an undo."""
    code = f"BOOK_{secrets.token_hex(4).upper()}"
    with scene.session() as session:
        organisation = create_organisation(session, f"Organisation of {code}")
        owner: dict[str, Any] = {"organisation_name": organisation.name}
        create_import_supplier(session, code=code, **owner)
        key = issue_api_key(session, **owner)
        of_team = f"/setup/teams/{create_operations_team(session, f'Team of {code}', **owner).id}/"
        webhook = f"/setup/webhooks/{make_webhook(session, organisation.id, code).id}/"
    of_key = f"/setup/keys/{find_prefix(key)}/"
    with Client(scene.address.url, key) as client:

        def send(lines: list[bytes], mode: str, team: str | None = None) -> str:
            """Send a book, and return the id of its batch, which is over."""
            book = BytesIO(b"\n".join(lines))
            started = client.start_batch(book, import_supplier=code, mode=mode, operations_team_name=team)
            return client.wait_for_batch(started.batch_id).batch_id

        first = send(book_of(code, LINES, broken=0.5)[:20], "import", TEAM)
        failed = [*client.get_batch_results(first, status="FAILED")]
        refused, *_ = (it.external_account_number for it in failed if it.external_account_number)
        client.acknowledge_open(code, reason="It stays.", external_account_numbers=[refused])
        client.reconcile_import_supplier(code)
        made = client.start_certificate(import_supplier=code).certificate_id
        wait_until(lambda: client.get_certificate(made).finished_at, "the certificate")
        imported = next(iter(client.get_batch_results(first, status="IMPORTED")))
        number = str(imported.external_account_number)
        undone = client.start_undo(import_supplier=code, reason="A trial.", external_account_numbers=[number])
        wait_until(lambda: client.get_undo(undone.undo_id).state == "COMPLETED", "the undo")
        later = send(book_of(code, LINES, broken=0)[20:23], "stage")
        night = {"start": "22:00", "end": "06:00", "time_zone": "UTC"}
        waves: list[dict[str, Any]] = [{"sample": 1}, {"rest": True}]
        planned = client.plan_waves(
            import_supplier=code, operations_team_name=TEAM, waves=waves, window=night
        )
    batch, plan = f"/batches/{first}/", f"/waves/{planned.plan_id}/"
    certificate, undo = f"/certificates/{made}/", f"/undos/{undone.undo_id}/"
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
            f"{supplier}certificates/start/",
            certificate,
            f"{supplier}receipt/accept/",
            f"{supplier}ready/",
            f"{supplier}ready/backup_recent/accept/",
            f"{supplier}acknowledgements/",
            f"{supplier}open/",
            f"{supplier}acknowledgements/new/?batch={first}",
        ),
        *(f"{supplier}emails/", "/suppliers/new/", f"{account}skip/", f"{account}unskip/"),
        *(undo, f"{undo}cancel/"),
        f"/batches/{later}/compare/?before={first}",
        f"{of_key}revoke/",
        "/setup/webhooks/",
        *(f"{webhook}{act}/" for act in ("set_email", "switch_off", "switch_on")),
        *("/", f"/suppliers/{code}/", f"/suppliers/{code}/reconciliation/", f"/suppliers/{code}/upload/"),
        *("/batches/", batch, f"{batch}lines/", f"{batch}retry/?everything=1", f"{batch}compare/"),
        *(f"{batch}codes/{failed[0].errors[0].code}/", f"{batch}lines/{failed[0].line_number}/"),
        *(account, f"{account}undo/"),
        *("/batches/?kind=notes&state=RUNNING", f"{batch}retry/"),
        *(
            "/accounts/",
            "/accounts/?q=nobody",
            "/accounts/?q=ean",
            "/work/",
            "/health/",
            "/emails/",
            "/undos/",
        ),
        *(f"{of_team}rename/", f"{of_team}remove/", f"{supplier}rename/", f"{supplier}remove/"),
        *(f"/setup/operators/admin/{act}/" for act in ("role", "disable", "password")),
        *("/setup/teams/", "/setup/teams/new/", "/setup/operators/", "/setup/operators/new/"),
        *("/audit/", "/setup/keys/", "/password/", f"{batch}change_threshold/", f"{supplier}status/"),
    ]


#: Views that are no pages: files, and what leads to the identity provider.
NO_PAGES = {
    *("static", "assets.bootstrap", "assets.dark", "openid.begin", "openid.come_back"),
    *("downloads.results", "downloads.hand_back", "undo.outcomes"),
    *(
        "suppliers.download_id_map",
        "suppliers.download_differences",
        "certificates.download",
    ),
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

"""A whole migration programme by the console alone, in a real browser, as its documentation describes it.

MIGRATION_SERVICE_PROGRAMME=20000 runs it with so many accounts.
"""

import csv
import os
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import ZipFile
from zlib import crc32

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from drill.scene import TEAM, Scene
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service_local.samples import generate_accounts
from support.browser import LIGHT, Visitor, needs_chromium
from support.console_steps import book_of, log_in
from support.deliveries import PAID, pay, read_new_numbers

pytestmark = [needs_chromium, pytest.mark.long]

ACCOUNTS = int(os.environ.get("MIGRATION_SERVICE_PROGRAMME", "60"))
#: Milliseconds after which a page has to show what it is waited for. A larger book takes longer.
_PATIENCE = max(90_000, 60 * ACCOUNTS)
_REASON = "As agreed on Monday."


def number_on(line: bytes) -> Any:
    return msgspec.json.decode(line).get("external_account_number")


@dataclass
class Lead:
    """Somebody who runs a migration in the console. Axe looks at each page that has something new."""

    visitor: Visitor
    code: str
    #: Where files are downloaded to.
    folder: Path
    barriers: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    @property
    def page(self) -> Page:
        return self.visitor.page

    def _find(self, text: str) -> Locator:
        main = self.page.locator("main")
        found = main.get_by_role("link", name=text).or_(main.get_by_role("button", name=text)).first
        more = main.locator("details.more:not([open]) > summary")
        if not found.count() and more.count():
            more.first.click()
        return found

    def _go_on(self) -> None:
        """Continue from the page that says that an act took longer, if it did."""
        if self.page.get_by_text("This took longer than usual.").count():
            self.page.locator("main").get_by_role("link", name="Continue").click()
            self.page.wait_for_load_state()

    def look(self) -> None:
        """Let axe look at the page that is open, unless each kind of its elements was in one before."""
        if new := self.visitor.places() - self.seen:
            self.seen |= new
            self.barriers += self.visitor.find_barriers()

    def open(self, path: str) -> None:
        """Open a page of the supplier."""
        self.visitor.open(f"/suppliers/{self.code}/{path}")
        self.look()

    def follow(self, text: str) -> None:
        """Follow a link or a button of the page, and see where it leads."""
        self._find(text).click()
        self.page.wait_for_load_state()
        self._go_on()
        self.look()

    def confirm(self, reason: str | None = None) -> None:
        """Send the form, with a reason if it asks for one, and see where it leads."""
        if reason is not None:
            self.page.fill("#reason", reason)
        self.page.click("main form .buttons button")
        expect(self.page.locator(".alert-success")).to_be_visible()
        self._go_on()
        self.look()

    def act(self, text: str, reason: str | None = None) -> None:
        """Follow a link to a form, and send it."""
        self.follow(text)
        self.confirm(reason)

    def sees(self, text: str) -> None:
        """Wait for the first sentence of the page."""
        expect(self.page.locator(".lead").first).to_contain_text(text)

    def upload(self, file: Path, step: str, kind: str = "accounts") -> None:
        """Upload a file, and see the page of its batch."""
        self.visitor.open(f"/suppliers/{self.code}/upload/")
        self.page.select_option("#kind", kind)
        self.page.check(f"#step-{step}")
        self.page.select_option("#team", TEAM)
        self.page.set_input_files("#file", file)
        self.page.click("text=Upload >> nth=-1")
        # What takes longer than a few seconds leads there, too, but without its message.
        self.page.wait_for_url("**/batches/*/")

    def wait_for(self, state: str) -> None:
        """Wait until the first sentence of the page has a state. The page moves by itself."""
        self.page.evaluate("window.seen = 'this very page'")
        expect(self.page.locator(".lead")).to_contain_text(state, timeout=_PATIENCE)
        assert self.page.evaluate("window.seen") == "this very page"

    def wait_for_end(self) -> int:
        """Wait until the batch is over. Return how many lines failed."""
        self.wait_for("COMPLETED")
        failed = self.page.locator(".lead").inner_text().split(", ")[1].split()[0]
        return int(failed.replace(",", ""))

    def download(self, text: str) -> Path:
        """Follow a link to a file. Return where the browser has it."""
        with self.page.expect_download() as downloading:
            self._find(text).click()
        file = self.folder / downloading.value.suggested_filename
        downloading.value.save_as(file)
        return file


@pytest.fixture
def lead(scene: Scene, browser: Browser, tmp_path: Path) -> Iterator[Lead]:
    """A lead, with an organisation and a supplier."""
    code = f"NORTHSTAR_{secrets.token_hex(3).upper()}"
    with scene.session() as session:
        organisation = create_organisation(session, f"Organisation of {code}")
        create_import_supplier(session, code=code, organisation_name=organisation.name)
    with Visitor.arrive(browser, f"{scene.address.url}/console", **LIGHT) as visitor:
        visitor.page.set_default_timeout(_PATIENCE)
        log_in(visitor, scene)
        yield Lead(visitor, code, tmp_path)


@pytest.mark.timeout(max(600, ACCOUNTS // 5))
def test_a_programme_is_run_from_the_check_to_the_go_live_by_the_console_alone(lead: Lead) -> None:
    file = lead.folder / "book.ndjson"
    file.write_bytes(b"\n".join(book_of(lead.code, ACCOUNTS, broken=0.1)))

    # Check the file, and rehearse its lines.
    lead.upload(file, "validate")
    failed = lead.wait_for_end()
    assert 1 < failed < ACCOUNTS / 2
    lead.look()
    lead.follow("Rehearse these lines")
    lead.page.select_option("#team", TEAM)
    lead.confirm()
    assert lead.wait_for_end() == failed

    # Stage the lines that were rehearsed, without another upload.
    lead.act("Stage these lines")
    assert lead.wait_for_end() == failed
    with ZipFile(lead.download("Hand back what failed (ZIP)")) as archive:
        refused = archive.read("failed-lines.ndjson").splitlines()

    # The documented plan: a pilot that waits for a person, and two waves. The second is undone.
    pilot, second = (ACCOUNTS - failed) // 6, (ACCOUNTS - failed) // 3
    opens = datetime.now(UTC) - timedelta(hours=1)
    lead.follow("Plan waves")
    lead.page.fill("#name", "Spring")
    lead.page.select_option("#team", TEAM)
    lead.page.check("#continue_if_clean")
    lead.page.fill("#stop_after_errors", "2%")
    for row, (takes, which) in enumerate((("sample", pilot), ("size", second), ("rest", ""))):
        lead.page.select_option(f"#waves-{row}-takes", takes)
        lead.page.fill(f"#waves-{row}-which", str(which))
        lead.page.select_option(f"#waves-{row}-if_clean", "hold")
    lead.page.locator("summary >> text=Its own window").nth(1).click()
    # The window has been open for an hour, and stays open for hours.
    lead.page.fill("#waves-1-start", f"{opens:%H:%M}")
    lead.page.fill("#waves-1-end", f"{opens + timedelta(hours=6):%H:%M}")
    lead.page.fill("#waves-1-first_day", f"{opens:%Y-%m-%d}")
    lead.page.fill("#waves-1-time_zone", "UTC")
    lead.follow("Show what this does")
    lead.follow("Make this plan")
    plan = lead.page.url
    _see_wave(lead, plan, 1)
    lead.act("Start now")
    lead.wait_for("CLEAN")
    lead.look()
    lead.act("Approve", _REASON)
    _see_wave(lead, plan, 2)
    lead.wait_for("CLEAN")  # it has begun by itself
    lead.act("Undo the imports", _REASON)
    lead.wait_for("COMPLETED")
    _see_wave(lead, plan, 2)
    lead.wait_for("DIFFERS")
    lead.look()
    lead.act("Stop", _REASON)
    lead.open("")
    expect(lead.page.locator(".steps .next")).to_contain_text("Migrate the other waves")
    lead.sees(f"{pilot:,} of {ACCOUNTS:,} accounts that were sent are created")

    # Stage the failed lines as they should have been, but for one that stays out.
    good = {number_on(line): line for line in book_of(lead.code, ACCOUNTS, broken=0)}
    corrected = [good[number_on(line)] for line in refused if number_on(line) in good]
    file = lead.folder / "corrected.ndjson"
    file.write_bytes(b"\n".join(corrected[1:]))
    lead.upload(file, "stage")
    assert lead.wait_for_end() == 0
    _migrate_the_rest(lead)

    # One account has changed, one is new, one has vanished, and a file of payments is wrong.
    lead.open("reconciliation/")
    before = read_new_numbers(lead.download("External and new numbers"))
    _see_wave(lead, plan, 1)
    lead.follow("The batch, with its errors")
    lead.follow("All lines")
    with lead.download("All of these (CSV)").open(newline="") as lines:
        changed, vanished = [row["external_account_number"] for row in csv.DictReader(lines)][:2]
    (new,) = generate_accounts(1, supplier=lead.code, seed=crc32(lead.code.encode()), first=ACCOUNTS)
    book = list(map(msgspec.json.decode, book_of(lead.code, ACCOUNTS, broken=0)))
    delivered = [
        it | {"billing_address1": "Keizersgracht 1"} if it["external_account_number"] == changed else it
        for it in [*book, new]
        if it is new or it["external_account_number"] in before.keys() - {vanished}
    ]
    lead.upload(_write(lead, "second.ndjson", delivered), "stage")
    assert lead.wait_for_end() == 0
    stored = lead.page.url
    _see_wave(lead, plan, 1)
    lead.follow("Replace what differs")
    expect(lead.page.locator("main")).to_contain_text("1 account is created again from its newest version")
    lead.confirm(_REASON)
    assert lead.wait_for_end() == 0
    for amount in (2 * PAID, PAID):
        payments = _write(lead, f"payments-{amount}.ndjson", [pay(lead.code, changed, amount)])
        lead.upload(payments, "import", "transactions")
        assert lead.wait_for_end() == 0
        if amount != PAID:
            lead.act("Take back what was added", _REASON)
            lead.wait_for("COMPLETED")
    lead.open(f"accounts/{vanished}/")
    lead.act("Undo the import", _REASON)
    lead.wait_for("COMPLETED")
    lead.open(f"accounts/{vanished}/")
    lead.act("Skip", _REASON)
    lead.page.goto(stored)
    _migrate_the_rest(lead)

    # Acknowledge what is not migrated, reconcile, and take the report and the numbers away.
    lead.open("open/")
    for box in lead.page.locator("main tbody input[type=checkbox]").all():
        box.check()
    lead.follow("Acknowledge those chosen")
    lead.confirm("It stays with the supplier.")
    lead.open("reconciliation/")
    if lead.page.locator("text=Compare all created accounts").count():
        lead.follow("Compare all created accounts")
    expect(lead.page.locator(".lead")).to_contain_text("Nothing is open. Every value of")
    numbers = read_new_numbers(lead.download("External and new numbers"))
    assert len(numbers) >= ACCOUNTS - 2
    lead.open("")
    report = lead.download("Report")
    for text in (_REASON, "It stays with the supplier."):
        assert text in report.read_text()
    with lead.visitor.second_tab() as other:
        other.page.goto(report.as_uri())
        lead.barriers += other.find_barriers()
    del before[vanished]
    assert {number: numbers[number] for number in before} == before, "no customer's number changed"

    # Go live, and certify.
    lead.open("")
    lead.follow("Go-live")
    lead.page.fill("#code", lead.code)
    lead.follow("Show what this does")
    expect(lead.page.locator(".found")).to_contain_text("at once")
    lead.page.click("main form >> text=Go live")
    expect(lead.page.locator(".alert-success")).to_contain_text("went live")
    lead.follow("Set the status")
    lead.page.select_option("#status", "Complete")
    lead.confirm()
    expect(lead.page.locator("main")).to_contain_text("none of its accounts can be undone")
    expect(lead.page.locator(".steps .not-done")).to_have_count(0)
    expect(lead.page.locator(".steps .next")).to_have_count(0)
    lead.open("certificates/")
    lead.act("Make a certificate")
    made = lead.page.locator("main tbody a")
    for _ in range(60):
        if made.count():
            break
        lead.page.wait_for_timeout(1_000)
        lead.page.reload()
    made.first.click()
    lead.look()
    file = lead.download("File to verify")
    verify = [sys.executable, "-m", "migration_service_client", "certificate", "verify", str(file)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert lead.barriers == []
    assert lead.visitor.complaints == []


def _see_wave(lead: Lead, plan: str, number: int) -> None:
    lead.page.goto(f"{plan}{number}/")
    lead.look()


def _migrate_the_rest(lead: Lead) -> None:
    """Migrate what was undone, what was not migrated yet, and what was corrected, with another plan."""
    lead.follow("Plan waves")
    lead.page.select_option("#team", TEAM)
    lead.page.select_option("#waves-0-takes", "rest")
    lead.follow("Show what this does")
    lead.follow("Make this plan")
    _see_wave(lead, lead.page.url, 1)
    lead.act("Start now")
    lead.wait_for("CLEAN")
    lead.act("Approve", _REASON)


def _write(lead: Lead, name: str, items: Iterable[dict[str, Any]]) -> Path:
    file = lead.folder / name
    file.write_bytes(b"\n".join(map(msgspec.json.encode, items)))
    return file

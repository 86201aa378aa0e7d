"""Every page answers its question, in its first sentence and in the language of the reader."""

import csv
import re
import secrets
from html import unescape
from unittest.mock import patch
from urllib.parse import quote, unquote

import pytest

from migration_service.services.access.operators import OperatorRole
from migration_service.services.batches.intake import upload
from migration_service.services.processing.slots import Slots
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, LogIn, text_of
from support.imported_account import ImportedAccount
from support.marked_person import marked_parts
from support.supplier_client import SupplierClient
from support.wave_client import WaveClient


def test_the_accounts_of_two_suppliers_with_one_number_are_listed(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    other = SupplierClient.create(batches.supplier.app, batches.supplier.Session)
    (account,) = batches.supplier.accounts(1)
    for supplier in (batches.supplier, other):
        assert supplier.stage({**account, "import_supplier": supplier.code}).status_code == 201
    number = account["external_account_number"]
    page = administrator.see(f"/accounts/?q={number}")
    assert "2 accounts were found." in page
    assert f'name="q" value="{number}"' in page
    for supplier in (batches.supplier, other):
        assert f"/console/suppliers/{supplier.code}/accounts/{number}/" in page
    assert "No account has this number" in administrator.see("/accounts/?q=nobody")


def test_an_account_is_found_by_its_numbers_as_people_write_them(
    administrator: ConsoleClient, supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    ean = "87" + "".join(secrets.choice("123456789") for _ in range(16))
    account = ImportedAccount.create(supplier, worker_resources, **marked_parts("Jansen", ean))
    groups = [ean[:4], ean[4:11], ean[11:]]
    wide = "".join(chr(ord(it) + 0xFEE0) for it in ean)
    eans = [*(it.join(groups) for it in (" ", ".", "-", "\u200b", "\u00a0", "\n")), f"'{ean}", wide]
    number = account.number
    for wanted in (*eans, number, f"'{number}", f"\ufeff{number[:2]}\u200b{number[2:]}\u00a0", f"{number}\n"):
        found = unquote(unquote(administrator.get(f"/accounts/?q={quote(wanted)}").location or ""))
        assert found == f"/console/suppliers/{supplier.code}/accounts/{number}/", ascii(wanted)
    for wanted in ("\u200b", "'", ean[:-1]):
        assert "No account has this number" in administrator.see(f"/accounts/?q={quote(wanted)}")


def test_suppliers_batches_plans_and_codes_are_found_by_a_part_of_their_name(
    log_in: LogIn, administrator: ConsoleClient, waves: WaveClient, another: SupplierClient
) -> None:
    supplier = waves.supplier
    waves.stage(1)
    plan = waves.plan({"rest": True}, name="Autumn 100%")
    batch = waves.batches.run(supplier.accounts(3)[2:], "validate", name="Autumn book")
    page = administrator.see("/accounts/?q=autumn")
    assert f"/console/waves/{plan['plan_id']}/" in page
    assert f"/console/batches/{batch['batch_id']}/" in page
    assert f"/console/batches/{batch['batch_id']}/" not in administrator.see("/accounts/?q=autumn_100")
    assert f"/console/batches/{batch['batch_id']}/" in administrator.see(f"/accounts/?q={batch['batch_id']}")
    assert f"/console/suppliers/{supplier.code}/" in administrator.see(
        f"/accounts/?q={supplier.code.lower()}"
    )
    codes = administrator.see("/accounts/?q=invalid+ean")
    assert "<code>invalid_ean</code>" in codes
    stranger = log_in(OperatorRole.READ, another.organisation)
    for wanted in ("autumn", supplier.code):
        assert (
            supplier.code
            not in stranger.see(f"/accounts/?q={wanted}").partition("<main")[2].partition("<ul")[2]
        )


def test_a_failed_line_leads_to_the_failed_lines_before_and_after_it(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    good, *broken = batches.supplier.accounts(4)
    broken = [it | {"customers": [{}]} for it in broken]
    with patch.object(upload, "CHUNK_LINES", 2):
        batch_id = batches.run([broken[0], good, broken[1], broken[2]])["batch_id"]
    lines = f"/batches/{batch_id}/lines/"

    def links(number: int) -> dict[str, str]:
        found = re.findall(
            r'<a rel="(prev|next)" href="/console([^"]*)"', administrator.see(f"{lines}{number}/")
        )
        return dict(found)

    assert links(1) == {"next": f"{lines}3/"}
    assert links(3) == {"prev": f"{lines}1/", "next": f"{lines}4/"}
    assert links(2) == {}


@pytest.mark.usefixtures("neighbour")
def test_everything_that_is_open_is_listed_and_downloaded_with_the_same_filter(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    staged, nameless, unreachable = batches.supplier.accounts(3)
    batches.run([staged], "stage")
    bad_phone, phone = "invalid_phone_number", {"customers": [{"family_name": "Jansen", "landline": "none"}]}
    refused = [nameless | {"customers": [{}]}, unreachable | phone, b"{no json"]
    batch_id = batches.run(refused)["batch_id"]
    page = f"/suppliers/{batches.supplier.code}/open/"
    assert len(set(re.findall(r'<option[^>]* value="([0-9a-f-]{36})"', administrator.see(page)))) == 2
    kept = administrator.see(f"/suppliers/{batches.supplier.code}/reconciliation/")
    assert f'href="/console{page}">4 open items</a>' in kept
    supplier = administrator.see(f"/suppliers/{batches.supplier.code}/")
    for link in (page, f"{page}?error={bad_phone}"):
        assert f'<a href="/console{link}">' in supplier

    def rows(query: str) -> list[list[str]]:
        """Return the rows of the file, which has the accounts and lines of the page."""
        shown = administrator.see(page + query)
        (file,) = re.findall(r'href="/console([^"]*open/list\.csv[^"]*)"', shown) or [""]
        found = list(csv.reader(administrator.see(unescape(file)).splitlines()))[1:] if file else []
        table = shown.partition("<tbody>")[2].partition("</tbody>")[0]
        assert table.count("<tr>") == len(found)
        assert all(row[0] in table for row in found)
        return found

    everything = rows("")
    assert everything[0] == [staged["external_account_number"], "STAGED", "", "", ""]
    assert everything[2] == [unreachable["external_account_number"], "REFUSED", batch_id, "2", bad_phone]
    assert [it[3] for it in everything[1:]] == ["1", "2", "3"]
    assert rows(f"?batch={batch_id}") == rows("?reason=REFUSED") == everything[1:]
    assert rows("?reason=STAGED") == everything[:1]
    assert rows(f"?reason=REFUSED&error={bad_phone}&batch={batch_id}") == everything[2:3]
    assert rows("?error=nothing") == rows("?reason=WAITING") == []
    assert rows("?reason=nothing&error=&batch=") == everything


def test_health_shows_the_lines_of_the_doctor(administrator: ConsoleClient) -> None:
    text = administrator.see("/health/")
    for part in ("database", "redis", "revisions", "queue interactive", "slots"):
        assert f">{part}</td>" in text


def test_the_page_of_work_says_what_waits_and_how_old_the_last_sweep_is(
    administrator: ConsoleClient, worker_resources: WorkerResources
) -> None:
    redis, slots = worker_resources.redis, Slots(worker_resources.redis)
    slots.reconcile([])
    redis.hset("migration:slots:state", "ready", "1")  # without the pause after a loss
    slots.acquire(["first", "second"], owner=1, limit=None)
    redis.hincrby("migration:slots:state", "reconciled_at", -9_000)
    page = text_of(administrator.see("/work/"))
    slots.release(["first", "second"])
    assert "last sweep 9 s ago" in page
    assert re.search(r"\b2 (of 250 )?slots are in use", page), page[:2000]


def test_stylesheets_are_kept_by_browsers(stranger: ConsoleClient) -> None:
    for path, kept, begins in (
        ("/assets/bootstrap.css", 86_400, "@charset"),
        ("/assets/dark.css", 86_400, ":root{color-scheme:dark;"),
        ("/static/console.css", 3_600, ""),
    ):
        with stranger.get(path) as answer:
            assert answer.mimetype == "text/css"
            assert answer.cache_control.max_age == kept
            assert answer.get_data(as_text=True).startswith(begins)


_STEPS = re.compile(r'<ol class="steps">(.*?)</ol>', re.DOTALL)
_STEP = re.compile(r'<li class="([a-z-]+)"')


def _states(client: ConsoleClient, batches: BatchClient) -> list[str]:
    (steps,) = _STEPS.findall(client.see(f"/suppliers/{batches.supplier.code}/"))
    return [str(state) for state in _STEP.findall(steps)]


def test_the_steps_lead_through_a_programme(
    administrator: ConsoleClient, batches: BatchClient, waves: WaveClient
) -> None:
    accounts = batches.supplier.accounts(3)
    path = f"/suppliers/{batches.supplier.code}"
    later = ["later"] * 12
    assert _states(administrator, batches) == ["next", *later[1:]]
    batches.run([*accounts, b"{no json"], "validate")
    assert _states(administrator, batches) == ["done", "next", *later[2:]]
    staged = batches.run([*accounts, b"{no json"], "stage")["batch_id"]
    begun = ["done", "not-done", "not-recorded", "done"]
    assert _states(administrator, batches) == [*begun, "next", *later[5:]]
    batches.run([*accounts, b"{no json"], "dry-run")
    begun[1] = "done"
    plan = waves.plan({"sample": 1}, {"rest": True})
    assert _states(administrator, batches) == [*begun, "done", "next", *later[6:]]
    waves.act(plan, 1, "start")
    waves.run()
    waves.act(plan, 1, "approve", reason="As agreed.")
    assert _states(administrator, batches) == [*begun, "done", "done", "next", *later[7:]]
    waves.run()
    # The line that is no JSON is still open.
    begun += ["done"] * 3
    assert _states(administrator, batches) == [*begun, "next", *later[8:]]
    administrator.act(f"{path}/acknowledgements/new/?batch={staged}", {"reason": "Nobody knows it."})
    begun += ["nothing-to-do", "done", "done"]
    assert _states(administrator, batches) == [*begun, "next", "later"]
    administrator.send(f"{path}/status/", {"status": "Complete"})
    assert _states(administrator, batches) == [*begun, "not-done", "done"]

"""Every page of the console answers its question."""

import re
import secrets
from urllib.parse import quote, unquote

from migration_service.services.processing.slots import Slots
from migration_service.tasks.names import QUEUES
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of
from support.imported_account import ImportedAccount
from support.marked_person import marked_parts
from support.servers import wait_until
from support.supplier_client import SupplierClient


def test_the_pages_of_a_book_lead_from_the_supplier_to_the_faulty_value(
    administrator: ConsoleClient, batches: BatchClient, broken_batch: str
) -> None:
    code = batches.supplier.code
    assert broken_batch in administrator.see(f"/suppliers/{code}/")
    batch = administrator.see(f"/batches/{broken_batch}/")
    assert "invalid_phone_number" in batch
    assert "2 failed" in batch
    found = administrator.see(f"/batches/{broken_batch}/codes/invalid_phone_number/")
    assert "customers.*.landline" in found
    at_path = administrator.see(
        f"/batches/{broken_batch}/codes/invalid_phone_number/?path=customers.*.landline"
    )
    assert f"/batches/{broken_batch}/lines/2/" in at_path
    line = administrator.see(f"/batches/{broken_batch}/lines/2/")
    assert 'id="at-customers.0.landline"' in line
    assert "not a number" not in line


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


def test_health_shows_the_lines_of_the_doctor(administrator: ConsoleClient) -> None:
    text = administrator.see("/health/")
    for part in ("database", "redis", "revisions", "queue interactive", "slots"):
        assert f">{part}</td>" in text


def test_the_page_of_work_names_the_workers_of_each_queue_once_they_answered(
    administrator: ConsoleClient, worker_resources: WorkerResources
) -> None:
    worker_resources.redis.delete("migration:console:workers", "migration:console:workers:asked")
    assert "The workers are being asked" in administrator.see("/work/")
    wait_until(
        lambda: worker_resources.redis.exists("migration:console:workers"), "the answer of the workers"
    )
    text = administrator.see("/work/")
    for queue in QUEUES:
        assert f"><code>{queue}</code></td>" in text
    # Here no worker runs.
    assert text.count("No worker answers.") == len(QUEUES)
    assert "The workers answered" in text
    assert "No worker answers for the queue batch." in text


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


def test_stylesheets_are_kept_by_browsers_and_pages_are_not(
    stranger: ConsoleClient, administrator: ConsoleClient
) -> None:
    for path, kept, begins in (
        ("/assets/bootstrap.css", 86_400, "@charset"),
        ("/assets/dark.css", 86_400, ":root{color-scheme:dark;"),
        ("/static/console.css", 3_600, ""),
    ):
        with stranger.get(path) as answer:
            assert answer.mimetype == "text/css"
            assert answer.cache_control.max_age == kept
            assert answer.get_data(as_text=True).startswith(begins)
    assert administrator.get("/").headers["Cache-Control"] == "no-store"

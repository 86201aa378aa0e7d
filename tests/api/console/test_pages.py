"""Every page of the console answers its question."""

import re

from migration_service.services.processing.slots import Slots
from migration_service.tasks.names import QUEUES
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, LogIn, text_of
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


def test_the_filters_and_parts_of_pages_answer(
    administrator: ConsoleClient, batches: BatchClient, broken_batch: str
) -> None:
    code, number = batches.supplier.code, batches.supplier.accounts(1)[0]["external_account_number"]
    for path in (
        "/accounts/?q=nobody",
        "/emails/?state=SENT",
        f"/audit/?kind=everything&account={code} {number}",
        f"/batches/{broken_batch}/lines/?status=FAILED",
        f"/batches/{broken_batch}/lines/6/",
        f"/batches/{broken_batch}/retry/?everything=1",
        f"/suppliers/{code}/reconciliation/?batch={broken_batch}",
        f"/batches/{broken_batch}/?part=1",
        f"/suppliers/{code}/?part=1",
    ):
        assert administrator.see(path)


def test_an_account_is_found_by_either_number_and_by_its_meter_point(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    report = batches.run([account])
    number = account["external_account_number"]
    (line,) = batches.results(str(report["batch_id"]))
    ean = account["supply_addresses"][0]["meter_points"][0]["ean"]
    for wanted in (number, line["service_account_number"], ean):
        answer = administrator.get(f"/accounts/?q={wanted}")
        assert answer.status_code == 302, wanted
        assert answer.location == f"/console/suppliers/{batches.supplier.code}/accounts/{number}/"


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


def test_health_shows_the_lines_of_the_doctor(administrator: ConsoleClient) -> None:
    text = administrator.see("/health/")
    for part in ("database", "redis", "revisions", "queue interactive", "slots"):
        assert f">{part}</td>" in text


def test_the_console_speaks_dutch_to_whoever_prefers_it(log_in: LogIn) -> None:
    client = log_in()
    answer = client.get("/", headers={"Accept-Language": "nl-NL,nl;q=0.9"})
    assert '<html lang="nl">' in answer.text
    assert "Overzicht" in answer.text
    assert answer.headers["Content-Language"] == "nl"
    for language, label in (("en", "Organisation"), ("nl", "Organisatie"), ("en", "Organisation")):
        form = client.get("/setup/keys/new/", headers={"Accept-Language": language}).text
        assert f">{label}</label>" in form
    client.send("/language/", {"language": "en", "next": "/console/work/"}, page="/")
    assert '<html lang="en">' in client.get("/", headers={"Accept-Language": "nl"}).text


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
    page = administrator.get("/", headers={"Accept-Encoding": "gzip"})
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Content-Encoding"] == "gzip"


def test_an_account_has_a_page_whatever_its_number_is_and_others_have_none(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    odd = "A//1 b"
    assert batches.supplier.stage(account | {"external_account_number": odd}).status_code == 201
    accounts = f"/suppliers/{batches.supplier.code}/accounts"
    assert "A//1 b" in administrator.see(f"{accounts}/A//1%20b/")
    for path in (f"{accounts}/nobody/", f"{accounts}/A/1%20b/"):
        assert administrator.get(path).status_code == 404
        assert administrator.send(f"{path}reveal/", page="/password/").status_code == 404

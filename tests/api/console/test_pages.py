"""Every page answers its question, in its first sentence and in the language of the reader."""

import re
from unittest.mock import patch

from migration_service.services.batches.intake import upload
from migration_service.services.processing.slots import Slots
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of


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

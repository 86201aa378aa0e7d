"""A batch or a wave that stands still tells why, and what each choice does; when a page asks again."""

import re
from unittest.mock import patch

import pytest

from migration_service.blueprints.console import polling
from migration_service.blueprints.console.polling import BUSY, CALM
from migration_service.services.batches.intake import upload
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, facts_of, text_of
from support.undo_client import UndoClient
from support.wave_client import WaveClient


def _card(page: str) -> str:
    found = re.search(r'<section class="still".*?</section>', page, re.DOTALL)
    assert found, page
    return found[0]


def test_too_many_errors_are_told_with_three_lines_and_every_choice(
    batches: BatchClient, administrator: ConsoleClient
) -> None:
    good, *broken = batches.supplier.accounts(9)
    with patch.object(upload, "CHUNK_LINES", 2):
        report = batches.run(
            [good, *(it | {"customers": [{}]} for it in broken)], stop_after_errors="3", name="week 12"
        )
    assert (report["state"], report["reason"]) == ("PAUSED", "error_threshold_reached")
    card = _card(administrator.see(f"/batches/{report['batch_id']}/"))
    counted = report["brake"]
    said = text_of(card)
    assert f"In all, {counted['errors']} of {counted['lines']} lines count as failed" in said
    assert "It is paused when 3 lines failed." in said
    assert re.search(r"Paused by the service|Paused by \w+", said)
    code = next(iter(counted["codes"]))
    assert f"<code>{code}</code>" in card
    assert len(re.findall(r"<li>.*?/lines/\d+/.*?</li>", card, re.DOTALL)) == 3
    left = report["counts"]["PENDING"]
    assert facts_of(card) == {
        "See these lines": "The supplier corrects them and sends them again.",
        "Change the error threshold": "What has failed so far counts for the new one, too.",
        "Resume": f"{left} lines that are left are processed. "
        "What has failed so far does not count any more.",
        "Cancel": "What is left is never processed. This is permanent.",
    }


def test_who_has_paused_a_wave_is_told_on_both_of_its_pages(
    waves: WaveClient, administrator: ConsoleClient
) -> None:
    waves.stage(1)
    plan = waves.plan({"rest": True})
    assert waves.act(plan, 1, "start").status_code == 200
    waves.sweep()
    wave = f"/waves/{plan['plan_id']}/1/"
    assert 'class="still"' not in administrator.see(wave)
    administrator.act(f"{wave}pause/")
    card = text_of(_card(administrator.see(wave)))
    assert re.search(r"It is paused until somebody resumes it. Paused by operator \w+, ", card)
    assert {"Resume", "Stop"} <= set(facts_of(_card(administrator.see(wave))))
    batch = administrator.see(f"/batches/{waves.batch_id(plan, 1)}/")
    assert "This batch is wave 1 of a plan." in batch
    administrator.act(f"{wave}resume/")
    assert 'class="still"' not in administrator.see(wave)


NEVER = 0


@pytest.fixture(autouse=True)
def _answers_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that takes long is asked for less often (test_polling.py in tests/unit)."""
    monkeypatch.setattr(polling, "SHARE", 100.0)


def _waits(client: ConsoleClient, *paths: str) -> list[int]:
    return [int(client.get(path).headers["X-Poll-After"]) for path in paths]


def test_batches_and_undos(administrator: ConsoleClient, batches: BatchClient) -> None:
    supplier = f"/suppliers/{batches.supplier.code}/"
    batch_id = batches.start(batches.supplier.accounts(1))
    pages = (f"/batches/{batch_id}/", supplier, "/")
    assert _waits(administrator, *pages, "/undos/") == [BUSY, BUSY, BUSY, NEVER]
    administrator.send(f"{supplier}status/", {"status": "Paused"})
    assert batches.get(batch_id)["state"] == "WAITING"
    assert _waits(administrator, *pages) == [CALM, CALM, CALM]
    administrator.send(f"{supplier}status/", {"status": "Ongoing"})
    batches.work()
    assert _waits(administrator, *pages) == [NEVER, CALM, CALM]

    undo = administrator.send(f"{pages[0]}undo/", {"reason": "Again."}).location.removeprefix("/console")
    assert _waits(administrator, undo, "/undos/") == [BUSY, CALM]
    UndoClient(batches.supplier).work(undo.split("/")[-2])
    assert _waits(administrator, undo, "/undos/") == [NEVER, NEVER]


def test_waves(administrator: ConsoleClient, waves: WaveClient) -> None:
    waves.stage(2)
    plan = waves.plan({"size": 1}, {"rest": True})
    path = f"/waves/{plan['plan_id']}/"
    pages = ("/waves/", path, f"{path}1/", f"{path}2/")
    assert _waits(administrator, *pages) == [CALM] * 4
    waves.act(plan, 1, "start")
    assert _waits(administrator, *pages) == [BUSY, BUSY, BUSY, CALM]
    waves.run()
    assert _waits(administrator, *pages) == [CALM] * 4
    waves.act(plan, 1, "reconcile")
    assert waves.states(plan)[0] == "RECONCILING"
    assert _waits(administrator, *pages) == [BUSY, BUSY, BUSY, CALM]
    waves.run()
    waves.act(plan, 1, "approve", reason="It is right.")
    assert _waits(administrator, *pages) == [CALM, CALM, NEVER, CALM]
    waves.act(plan, 2, "stop", reason="Enough.")
    assert _waits(administrator, *pages) == [NEVER] * 4

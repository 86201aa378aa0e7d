"""A batch or a wave that stands still tells why, on which lines, who paused it, and what each choice does."""

import re
from unittest.mock import patch

from migration_service.services.batches.intake import upload
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, facts_of, text_of
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

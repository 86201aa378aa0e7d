"""What the charts of the console draw, on their real pages: it equals the numbers, which a table has, too."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import insert, update

from migration_service.blueprints.console.charts import draw_timeline
from migration_service.models import Batch, BatchChunk
from migration_service.services.batches.error_thresholds import ErrorThreshold
from migration_service.states import ChunkState
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of
from support.wave_client import NIGHT, WaveClient

_START = datetime(2026, 3, 2, 12, tzinfo=UTC)
_RECT = re.compile(
    r'<rect class="([a-z-]+)" x="([\d.]+)%" y="([\d.]+)%?" width="([\d.]+)%" height="([\d.]+)%"'
)


def _work(batches: BatchClient, work: list[tuple[float, int, int]], **values: Any) -> str:
    """Return the id of a batch whose chunks were done at these seconds, with their lines and failed lines."""
    batch_id = str(batches.run(batches.supplier.accounts(1), name="book")["batch_id"])
    rows = [
        {
            "batch_id": UUID(batch_id),
            "first_line": 1_000 * place,
            "last_line": 1_000 * place,
            "state": ChunkState.DONE,
            "worked": lines,
            "worked_at": _START + timedelta(seconds=seconds),
            "counts": {"FAILED": failed, "IMPORTED": lines - failed},
        }
        for place, (seconds, lines, failed) in enumerate(work, 1)
    ]
    with batches.supplier.Session.begin() as session:
        session.execute(update(BatchChunk).where(BatchChunk.batch_id == UUID(batch_id)).values(worked=0))
        session.execute(update(Batch).where(Batch.id == UUID(batch_id)).values(started_at=_START, **values))
        if rows:
            session.execute(insert(BatchChunk), rows)
    return batch_id


def _chart(page: str) -> str:
    found = re.search(r'<section aria-labelledby="rate">(.*?)</section>', page, re.DOTALL)
    return found[1] if found else ""


def _rows(part: str) -> list[list[str]]:
    """Return the cells of each row of a table's body."""
    body = re.search(r"<tbody>(.*?)</tbody>", part, re.DOTALL)
    rows = re.findall(r"<tr.*?>(.*?)</tr>", body[1] if body else "", re.DOTALL)
    return [[text_of(it) for it in re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row, re.DOTALL)] for row in rows]


def test_the_rate_that_is_drawn_is_the_rate_of_the_lines_with_those_that_failed_apart(
    batches: BatchClient, administrator: ConsoleClient
) -> None:
    brake = ErrorThreshold(stop_after_errors="25%", stop_min_lines=1).to_dict()
    batch_id = _work(batches, [(10, 100, 0), (20, 200, 50), (30, 50, 50)], brake=brake)
    chart = _chart(administrator.see(f"/batches/{batch_id}/"))
    assert [row[1:] for row in _rows(chart)] == [["10", "0"], ["20", "5"], ["5", "5"]]
    drawn = [(kind, float(height)) for kind, _x, _y, _width, height in _RECT.findall(chart)]
    success, danger = "fill-success", "fill-danger"
    assert drawn == [(success, 50), (success, 75), (danger, 25), (success, 0), (danger, 25)]
    heights = [float(it) for it in re.findall(r'class="threshold".*?y1="([\d.]+)%"', chart)]
    assert heights == [100 - 12.5, 100 - 25, 100 - 6.25]  # a quarter of each column
    assert "Lines per second, at most 20" in text_of(chart)
    assert 'role="img" aria-labelledby="rate-title"' in chart


def test_a_pause_is_drawn_as_nothing_and_not_as_a_slow_rate(
    batches: BatchClient, administrator: ConsoleClient
) -> None:
    before, after = range(10, 210, 10), range(410, 610, 10)
    batch_id = _work(batches, [(seconds, 150, 0) for seconds in (*before, *after)])
    chart = _chart(administrator.see(f"/batches/{batch_id}/"))
    rates = [float(rate) for _since, rate, _failed in _rows(chart)]
    idle = [place for place, rate in enumerate(rates) if rate == 0]
    assert len(rates) == 40
    assert idle == list(range(idle[0], idle[0] + len(idle)))
    assert 10 <= len(idle) <= 14  # of 15 seconds each: the pause takes 200
    assert chart.count('<rect class="idle"') == len(idle)
    assert sum(rates) * 15 == pytest.approx(40 * 150, rel=0.01)


def test_a_batch_of_one_chunk_has_no_chart(batches: BatchClient, administrator: ConsoleClient) -> None:
    for work in ([], [(10.0, 100, 0)]):
        assert _chart(administrator.see(f"/batches/{_work(batches, work)}/")) == ""


def test_a_long_run_has_sixty_columns_with_all_its_lines(
    batches: BatchClient, administrator: ConsoleClient
) -> None:
    work = [(6.0 * n, 30, failed) for n in range(1, 101) for failed in (0, n % 2)]  # two at each moment
    batch_id = _work(batches, work)
    chart = _chart(administrator.see(f"/batches/{batch_id}/"))
    rates = [(float(rate), float(failed)) for _since, rate, failed in _rows(chart)]
    assert len(rates) == 60
    assert sum(rate for rate, _failed in rates) * 10 == pytest.approx(6_000, rel=0.02)
    assert sum(failed for _rate, failed in rates) * 10 == pytest.approx(50, rel=0.3)  # rounded in the table
    assert all(0 <= float(it[1]) <= 100 and float(it[4]) <= 100 for it in _RECT.findall(chart))


def _lanes(page: str) -> list[str]:
    return re.findall(r'<div class="lane">(.*?)</div>', page, re.DOTALL)


def test_the_lanes_of_waves_have_their_windows_their_runs_and_who_decided(
    waves: WaveClient, administrator: ConsoleClient
) -> None:
    waves.stage(3)
    plan = waves.plan({"size": 1}, {"size": 1, "window": NIGHT}, {"rest": True, "window": NIGHT})
    path = f"/waves/{plan['plan_id']}/"
    first, second, third = _lanes(administrator.see(path))
    assert 'class="band"' not in first
    band = re.compile(r'class="band" x="([\d.]+)%" width="([\d.]+)%"')
    assert band.findall(second) == band.findall(third) == [("0.00", "100.00")]
    assert "Wave 2 is planned" in second
    assert waves.act(plan, 1, "start").status_code == 200
    waves.run()
    administrator.act(f"{path}1/approve/", {"reason": "It is right."})
    first, *others = _lanes(administrator.see(path))
    forecasts = [wave["ends_at_90"] is not None for wave in waves.get(plan)["waves"][1:]]
    assert ['class="hatch"' in lane for lane in others] == forecasts
    assert re.search(r'class="fill-success" x="[\d.]+%" width="[\d.]+%"', first)
    assert re.search(r"<text[^>]*>O\w<title>operator \w+</title>", first)
    rows = {row[0]: row for row in _rows(administrator.see(path))}
    assert rows["1"][-1].startswith("operator ")  # the table says the same


def test_a_wave_that_was_stopped_ran_until_that_was_decided() -> None:
    moments = ("reconciled_at", "opens_at", "closes_at", "ended_at", "ends_at_50", "ends_at_90")
    values = {"number": 1, "is_over": True, "began_at": _START, "decided_by": "Ada"}
    decided_at = _START + timedelta(minutes=30)
    wave: Any = SimpleNamespace(**dict.fromkeys(moments), **values, decided_at=decided_at)
    timeline = draw_timeline([wave], _START + timedelta(hours=1))
    assert timeline is not None
    assert (timeline.until, timeline.lanes[0].run) == (decided_at, (0.0, 1.0))


def test_a_plan_without_a_window_that_has_not_begun_has_no_timeline(
    waves: WaveClient, administrator: ConsoleClient
) -> None:
    waves.stage(1)
    plan = waves.plan({"rest": True})
    assert _lanes(administrator.see(f"/waves/{plan['plan_id']}/")) == []


def test_the_trend_has_a_column_for_each_rehearsal_and_its_codes_that_lead_to_what_changed(
    batches: BatchClient, administrator: ConsoleClient
) -> None:
    accounts = batches.supplier.accounts(4)
    path = f"/suppliers/{batches.supplier.code}/"
    first = batches.run([*accounts[:3], accounts[3] | {"customers": [{}]}], "dry-run", name="week 1")
    assert 'id="trend"' not in administrator.see(path)  # one is no trend
    second = batches.run(accounts, "dry-run", name="week 2")
    page = administrator.see(path)
    columns = re.findall(r'<a href="([^"]*)" aria-label="(week .*?)">(.*?)</a>', page, re.DOTALL)
    assert [label for _url, label, _drawn in columns] == [
        "week 1: 3 passed, 1 failed",
        "week 2: 4 passed, 0 failed",
    ]
    assert re.findall(r'height="([\d.]+%)"', columns[0][2]) == ["75.00%", "25.00%"]
    compared = f"/console/batches/{second['batch_id']}/compare/?before={first['batch_id']}"
    assert columns[1][0] == compared
    ((url, code, bars, told),) = re.findall(
        r'<a href="([^"]*)"><code>(.*?)</code>\s*<svg[^>]*>(.*?)</svg>\s*<span[^>]*>(.*?)</span>',
        page,
        re.DOTALL,
    )
    missing = "customer_family_name_required"
    assert (url, code, told) == (compared, missing, "lines: 1, then 0")
    assert re.findall(r'height="([\d.]+%)"', bars) == ["100.00%", "0.00%"]
    trend = page[page.index('class="multiples"') :]
    assert [row for row in _rows(trend) if row] == [[missing, "1, 0"]]

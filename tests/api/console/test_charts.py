"""What the charts of the console draw, on their real pages: it equals the numbers, which a table has, too."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from migration_service.blueprints.console.charts import draw_codes, draw_rate, draw_timeline
from migration_service.services.batches.results.pace import Work
from migration_service.states import BatchState

_START = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_a_wave_that_was_stopped_ran_until_that_was_decided() -> None:
    moments = ("reconciled_at", "opens_at", "closes_at", "ended_at", "ends_at_50", "ends_at_90")
    values = {"number": 1, "is_over": True, "began_at": _START, "decided_by": "Ada"}
    decided_at = _START + timedelta(minutes=30)
    wave: Any = SimpleNamespace(**dict.fromkeys(moments), **values, decided_at=decided_at)
    timeline = draw_timeline([wave], _START + timedelta(hours=1))
    assert timeline is not None
    assert (timeline.until, timeline.lanes[0].run) == (decided_at, (0.0, 1.0))


def test_a_chart_of_rehearsals_has_the_eight_commonest_codes_of_all() -> None:
    first: Any = SimpleNamespace(codes=[(f"code {number}", number) for number in range(9)])
    second: Any = SimpleNamespace(codes=[("code 0", 9)])
    drawn = draw_codes([first, second])
    assert drawn[:2] == [("code 0", [0, 9]), ("code 8", [8, 0])]
    assert [code for code, _lines in drawn[2:]] == [f"code {number}" for number in range(7, 1, -1)]


def test_no_more_lines_failed_than_were_done() -> None:
    done = [Work(at=float(at), lines=10, failed=at * 8) for at in range(3)]
    chart = draw_rate(done, BatchState.COMPLETED, _START, None)
    assert chart is not None
    assert [(it.rate, it.failed) for it in chart.columns] == [(10, 8), (10, 10)]

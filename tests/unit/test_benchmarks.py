"""The comparison of two checkouts, the table of docs/performance.md, and the hostile neighbour."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import chaos  # benchmarks is beside src, not installed
from benchmarks import report as bench_report
from benchmarks.compare import change_of


def test_rounds_that_agree_are_a_change() -> None:
    change = change_of([(100, 120), (90, 109), (200, 238), (50, 60), (70, 85)])
    assert change.is_real
    assert change.low < change.ratio < change.high
    assert change.ratio == pytest.approx(1.2, abs=0.02)


def test_rounds_that_disagree_are_noise() -> None:
    assert not change_of([(100, 150), (100, 80), (100, 130), (100, 95), (100, 120)]).is_real


def test_the_table_of_the_page_is_that_of_its_data() -> None:
    """`make bench ARGS=--write` writes both."""
    page, results = bench_report.PAGE.read_text(), json.loads(bench_report.DATA.read_text())
    assert bench_report.replace_table(page, results) == page
    assert len(results["rows"]) > 10
    assert all(f"| {row['what']} |" in page for row in results["rows"])


def test_an_account_that_is_lost_or_created_twice_or_a_slow_recovery_is_no_recovery() -> None:
    good = chaos.Result(
        before=600, during=0, after=588, ordered=9, created=9, accounts=9, refused=5, drained=1
    )
    assert good.has_recovered
    wrong = ({"created": 8, "accounts": 8}, {"accounts": 10}, {"after": 587}, {"before": 0, "after": 0})
    assert not any(replace(good, **change).has_recovered for change in wrong)


def test_our_rows_of_chaos_have_the_cells_of_the_tables_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs/contributors/reliability.md").read_text().splitlines()
    result = chaos.Result(
        before=600, during=300, after=600, ordered=9, created=9, accounts=9, refused=0, drained=1
    )
    results = dict.fromkeys(chaos.SCENARIOS, result)
    rows = [chaos.describe(results, 1, is_pressure=pressure) for pressure in (False, True)]
    ours = [line for line in page if line.startswith("| **this service**")]
    assert [row.count("|") for row in rows] == [line.count("|") for line in ours]

"""The comparison of two checkouts, the table of docs/performance.md, and the hostile neighbour."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import publish  # benchmarks is beside src, not installed
from benchmarks.compare import change_of


def test_rounds_that_agree_are_a_change() -> None:
    change = change_of([(100, 120), (90, 109), (200, 238), (50, 60), (70, 85)])
    assert change.is_real
    assert change.low < change.ratio < change.high
    assert change.ratio == pytest.approx(1.2, abs=0.02)


def test_rounds_that_disagree_are_noise() -> None:
    assert not change_of([(100, 150), (100, 80), (100, 130), (100, 95), (100, 120)]).is_real


def test_the_load_of_the_machine_meets_both_sides_of_a_round() -> None:
    """One round on a busy machine, and one on an idle one."""
    change = change_of([(10, 11), (1_000, 1_100), (300, 331), (20, 22)])
    assert change.is_real
    assert str(change).endswith("CHANGED")


def test_one_round_proves_nothing() -> None:
    assert not change_of([(100, 300)]).is_real


def test_the_table_of_the_page_is_that_of_its_data() -> None:
    """`python -m benchmarks.publish` writes both."""
    page, results = publish.PAGE.read_text(), json.loads(publish.DATA.read_text())
    assert publish.replace_table(page, results) == page
    assert len(results["rows"]) > 10
    assert all(f"| {row['what']} |" in page for row in results["rows"])

"""How soon a page that is left open asks again."""

import pytest

from migration_service.blueprints.console.polling import BUSY, CALM, stretch


@pytest.mark.parametrize(
    ("poll", "spent", "seconds"),
    [
        (BUSY, 0.0, BUSY),
        (BUSY, 0.02, BUSY),
        (BUSY, 0.064, 7),
        (BUSY, 3.0, CALM),
        (CALM, 0.001, CALM),
        (CALM, 3.0, CALM),
    ],
)
def test_what_takes_long_is_asked_for_less_often(poll: int, spent: float, seconds: int) -> None:
    assert stretch(poll, spent) == seconds

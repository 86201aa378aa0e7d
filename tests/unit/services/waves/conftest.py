"""A clock that stands still."""

from collections.abc import Iterator
from datetime import datetime
from unittest.mock import patch

import pytest

from migration_service.services.batches import clock
from unit.services.waves.wave_rows import EVENING


@pytest.fixture
def now() -> Iterator[datetime]:
    """The time by which windows open and close."""
    with patch.object(clock, "read_clock", lambda _session: EVENING):
        yield EVENING

"""Waves in the console: planned after their sizes were shown, carried on, decided, and in the audit."""

import re
from typing import Any

import pytest

from support.console_client import ConsoleClient, text_of
from support.wave_client import WaveClient


def _fields(waves: WaveClient, *rows: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    fields = {"name": "Spring", "team": waves.supplier.team, **more}
    for index, (name, takes, which) in enumerate(rows):
        at = f"waves-{index}"
        fields |= {f"{at}-name": name, f"{at}-takes": takes, f"{at}-which": which}
    return fields


_HOW_MANY = "How many, or the account numbers"


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        (
            [("", "accounts", "nobody")],
            {},
            ("waves-0-which", f"Wave 1, {_HOW_MANY}", "'nobody' is not pending"),
        ),
        (
            [("", "rest", "")],
            {"start": "22:00", "end": "06:00", "time_zone": "Mars"},
            ("time_zone", "Time zone of the window", "IANA"),
        ),
        (
            [("", "size", "1"), ("", "rest", "")],
            {"waves-1-stop_after_errors": "lots", "stop_after_errors": "2%"},
            ("waves-1-stop_after_errors", "Wave 2, Pause a wave after", "off"),
        ),
    ],
)
def test_what_does_not_fit_is_said_at_its_field_and_at_the_top(
    administrator: ConsoleClient,
    waves: WaveClient,
    rows: list[tuple[str, str, str]],
    more: dict[str, str],
    said: tuple[str, str, str],
) -> None:
    waves.stage(3)
    field, label, sentence = said
    path = f"/suppliers/{waves.supplier.code}/waves/new/"
    answer = administrator.post(path, administrator.tokens(path) | _fields(waves, *rows, **more))
    assert answer.status_code == 400
    (top,) = re.findall('<li><a class="alert-link" href="#(.*?)">(.*?)</a>: (.*?)</li>', answer.text)
    assert (top[0], top[1][: len(label)]) == (field, label)
    assert sentence in text_of(top[2])
    (wrong,) = re.findall(r'<(?:input|select|textarea)[^>]*aria-invalid="true"[^>]*>', answer.text)
    assert f'id="{field}"' in wrong
    assert " autofocus" in wrong
    assert f'aria-describedby="{field}-help"' in wrong
    (beside,) = re.findall(f'<div id="{field}-help">(.*?)</div></div>', answer.text, re.DOTALL)
    assert sentence in text_of(beside)
    assert 'name="seen"' not in answer.text
    assert waves.supplier.get("/wave-plans/").json == []


def test_the_fields_of_a_plan_have_bounds(administrator: ConsoleClient, waves: WaveClient) -> None:
    waves.stage(1)
    path = f"/suppliers/{waves.supplier.code}/waves/new/"
    tokens, most = administrator.tokens(path), 2**31 - 1
    for field, good, bad in (
        ("waves-0-name", "n" * 200, "n" * 201),
        ("lines_per_minute", str(most), str(most + 1)),
        ("seed", "0", "-1"),
    ):
        for value, status in ((good, 200), (bad, 400)):
            fields = tokens | _fields(waves, ("", "rest", "")) | {field: value}
            assert administrator.post(path, fields).status_code == status, (field, value[:20])

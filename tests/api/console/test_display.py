"""How values become text, in the language and the time zone of whoever reads them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask

from migration_service.blueprints.console import display
from migration_service.blueprints.console.display import (
    DASH,
    ZONE_COOKIE,
    duration,
    here_with,
    moment,
    number,
    percent,
)
from migration_service.blueprints.console.filters import read_filter
from migration_service.blueprints.console.languages import current_language
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.states import LineStatus

NOON = datetime(2026, 3, 2, 12, 0, 5, tzinfo=UTC)


@contextmanager
def _reading(app: Flask, path: str = "/", *, language: str = "en", cookie: str = "") -> Iterator[None]:
    console: Flask = app.extensions["migration_service_console"]
    headers = {"Accept-Language": language, "Cookie": cookie}
    with console.test_request_context(path, headers=headers):
        yield


class _Clock(datetime):
    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return NOON.astimezone(tz)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("show", "shown"),
    [
        (number, {(None,): DASH, (0,): "0", (1234,): "1,234", (2.5,): "2.5"}),
        # A share is all or nothing only if it is.
        (percent, {(0, 0): DASH, (1, 10**6): "0.1%", (1, 11): "9.1%", (1, 3): "33%", (5, 5): "100%"}),
        (percent, {(995, 1000): "99.5%", (999_999, 10**6): "99.9%"}),
        # A duration is in the unit that suits it.
        (duration, {(None,): DASH, (0,): "0 s", (99.4,): "99 s", (100,): "2 min", (6_000,): "1 h 40 min"}),
        (
            duration,
            {(86_400,): "24 h 0 min", (172_740,): "47 h 59 min", (172_800,): "2 days", (259_200,): "3 days"},
        ),
    ],
)
def test_numbers(console_app: Flask, show: Callable[..., str], shown: dict[tuple[Any, ...], str]) -> None:
    with _reading(console_app):
        assert {it: show(*it) for it in shown} == shown
    with _reading(console_app, language="nl"):
        assert [number(it) for it in (1234, 2.5)] == ["1.234", "2,5"]


@pytest.mark.parametrize(
    ("later", "zone", "shown"),
    [
        (0, "", "13:00:05"),
        (0, "Asia/Tokyo", "21:00:05"),
        (0, "../etc", "13:00:05"),
        (-24, "", "1 Mar 2026 13:00"),
        (12, "UTC", "3 Mar 2026 00:00"),
        (11.5, "Europe/Amsterdam", "3 Mar 2026 00:30"),
    ],
)
def test_a_time_is_in_the_zone_of_the_browser_or_else_of_the_service(
    console_app: Flask, monkeypatch: pytest.MonkeyPatch, later: float, zone: str, shown: str
) -> None:
    monkeypatch.setattr(display, "datetime", _Clock)
    value = NOON + timedelta(hours=later)
    with _reading(console_app, cookie=f"{ZONE_COOKIE}={zone}" if zone else ""):
        title = f"{value:%Y-%m-%d %H:%M:%S} UTC"
        assert moment(value) == f'<time datetime="{value.isoformat()}" title="{title}">{shown}</time>'


def test_a_time_with_its_seconds_and_one_that_is_not_known(console_app: Flask) -> None:
    with _reading(console_app, cookie=f"{ZONE_COOKIE}=UTC"):
        assert ">2 Mar 2020 12:00:05<" in moment(NOON.replace(year=2020), seconds=True)
        assert moment(None) == DASH
    with _reading(console_app, cookie=f"{ZONE_COOKIE}=UTC", language="nl"):
        assert ">2 mrt 2020 12:00<" in moment(NOON.replace(year=2020))


@pytest.mark.parametrize(
    ("path", "changed", "address"),
    [
        ("/batches/?state=RUNNING&part=1", {}, "/batches/?state=RUNNING"),
        ("/batches/?q=a%20%26", {"before": 7}, "/batches/?q=a+%26&before=7"),
        ("/suppliers/S%20X/?after=1", {"after": 2}, "/suppliers/S%20X/?after=2"),
        ("/emails/?endpoint=a&_scheme=javascript&_method=PUT", {"before": None}, None),
    ],
)
def test_the_address_of_a_page_with_other_arguments(
    console_app: Flask, path: str, changed: dict[str, object], address: str | None
) -> None:
    with _reading(console_app, path):
        assert here_with(**changed) == (path if address is None else address)


@pytest.mark.parametrize(
    ("preferred", "language"),
    [
        ("nl-NL,nl;q=0.9,en;q=0.8", "nl"),
        ("de,en-US;q=0.5", "en"),
        ("", "en"),
    ],
)
def test_the_language_is_that_of_the_browser_or_else_english(
    console_app: Flask, preferred: str, language: str
) -> None:
    with _reading(console_app, language=preferred):
        assert current_language() == language


def test_what_is_no_filter_filters_nothing(console_app: Flask) -> None:
    largest = 2**31 - 1
    for query, expected in (
        ("", ResultFilter()),
        ("status=&code=&path=&line=", ResultFilter()),
        ("status=nonsense&line=-1", ResultFilter()),
        (
            "status=FAILED&code=required&path=a.b&line=7",
            ResultFilter(status=LineStatus.FAILED, code="required", path="a.b", line=7),
        ),
        (f"line={largest}", ResultFilter(line=largest)),
        (f"line={largest + 1}", ResultFilter(line=largest)),
        ("line=" + "9" * 5000, ResultFilter(line=largest)),
    ):
        with _reading(console_app, f"/?{query}"):
            assert read_filter() == expected, query[:50]

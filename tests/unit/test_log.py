"""The two forms of a log line."""

import io
import json
import logging
import sys
from typing import Any

import pytest

from migration_service.log import make_handler, request_id


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def write_line(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, log_format: str, **extra: Any) -> str:
    """Return one line as it is written to `stream`."""
    monkeypatch.setattr(sys, "stderr", stream)
    logger = logging.Logger("tests.line")
    logger.addHandler(make_handler(log_format))
    logger.info("something happened", extra=extra)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("stream", "log_format", "is_json"),
    [
        (Terminal(), "auto", False),
        (io.StringIO(), "auto", True),
        (Terminal(), "json", True),
        (io.StringIO(), "text", False),
    ],
)
def test_auto_is_text_on_a_terminal_and_otherwise_json(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, log_format: str, is_json: bool
) -> None:
    assert write_line(monkeypatch, stream, log_format).startswith("{") is is_json


def test_a_json_line_has_level_logger_time_request_id_and_extra_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = request_id.set("request-7")
    try:
        line = json.loads(write_line(monkeypatch, io.StringIO(), "json", status=201))
    finally:
        request_id.reset(token)
    assert line.pop("timestamp").endswith("+00:00")
    assert line == {
        "level": "INFO",
        "logger": "tests.line",
        "message": "something happened",
        "request_id": "request-7",
        "status": 201,
    }

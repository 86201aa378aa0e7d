"""Logging: one JSON object per line for programs, or one line of text for people.

The request id is in every line of the request, from a context variable, and of its task, from the message.
"""

import logging
import sys
from contextvars import ContextVar

from pythonjsonlogger.json import JsonFormatter

#: The id of the current request, or of the request of the current task.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


class _RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "request_id"):
            record.request_id = request_id.get()
        return True


#: Loggers that repeat the service's log lines in several lines, or every few seconds. Celery's request logger
#: reports an expired periodic message as a revoked task, which misleads operators, and Alembic lists its own
#: parts at each start.
_CHATTY = (
    *("celery.worker.strategy", "celery.app.trace", "celery.beat", "celery.worker.request"),
    "alembic.runtime.plugins",
)


def configure_logging(level: str, log_format: str) -> None:
    """Send every log line of this process to standard error, in `log_format` (json, text or auto)."""
    logging.basicConfig(level=level, handlers=[make_handler(log_format)], force=True)
    if level != "DEBUG":
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
        # It warns of each malformed header of another server, with a traceback.
        logging.getLogger("urllib3.connection").setLevel(logging.ERROR)


def make_handler(log_format: str) -> logging.Handler:
    """Return a handler that writes to standard error in `log_format`.

    `auto` means text on a terminal, and json elsewhere.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_RequestIdFilter())
    if log_format == "json" or (log_format == "auto" and not sys.stderr.isatty()):
        handler.setFormatter(
            JsonFormatter(
                "{levelname}{name}{message}{request_id}",
                style="{",
                timestamp=True,
                rename_fields={"levelname": "level", "name": "logger"},
            )
        )
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    return handler

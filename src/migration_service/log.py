"""Logging: one JSON object per line for programs, or one line of text for people.

The request id is in every line of the request, from a context variable, and of its task, from the message.
"""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

#: The id of the current request, or of the request of the current task.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


class _RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "request_id"):
            record.request_id = request_id.get()
        return True


# What nobody writes, and what takes longest to find out.
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
#: What every record has. Everything else was given as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "request_id", "taskName"}
_encode = json.JSONEncoder(default=str).encode


class _JsonFormatter(logging.Formatter):
    """Writes a record as a JSON object. Each request has a line, so this is short."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": getattr(record, "request_id", None),
        }
        if record.exc_info:
            line["exc_info"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack_info"] = record.stack_info
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat()
        return _encode(line)


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
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    return handler

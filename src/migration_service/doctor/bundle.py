"""The bundle of `migration-service doctor`: what somebody who helps at night needs to know, safe to send on.

It has no secret, no payload and no value of a statement. Whatever a member says, the values of all secret
settings, the passwords of all addresses and all addresses of e-mail are replaced in it.
"""

import json
import platform
import re
import shutil
import subprocess
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from importlib.metadata import distributions, version
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from redis import RedisError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from migration_service.config import Settings
from migration_service.config.variables import variable_of
from migration_service.db.needed_tables import NEEDED
from migration_service.doctor.diagnosis import Diagnosis, ServiceParts
from migration_service.metrics.broker import read_broker
from migration_service.tasks.names import KEY_PREFIX, QUEUES

#: Lines of each log.
LOG_LINES = 5_000
_LONGEST_LINE = 20_000
_HIDDEN = "***"
#: A text, or what follows a quotation mark that nothing closes, and a number.
_LITERAL = re.compile(r"\$(\w*)\$.*?(?:\$\1\$|$)|'(?:[^'\\]|''|\\.)*(?:'|$)|\b\d[\d.]*\b", re.DOTALL)
_PASSWORD_OF_ADDRESS = re.compile(r"(?<=://)[^/@\s]*@")
#: An address of e-mail. The names of workers have the same form.
_EMAIL_ADDRESS = re.compile(rf"\b(?!(?:{'|'.join(QUEUES)}|background|celery)@)[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_ACTIVITY = text("""
    SELECT pid, datname, usename, application_name, state, wait_event_type, wait_event,
           extract(epoch FROM now() - xact_start)::float AS transaction_seconds,
           extract(epoch FROM now() - query_start)::float AS statement_seconds,
           pg_blocking_pids(pid) AS blocked_by, query
    FROM pg_stat_activity WHERE backend_type = 'client backend' ORDER BY xact_start NULLS LAST LIMIT 500
""")
_TABLES = text("""
    SELECT relname, n_live_tup, n_dead_tup, pg_total_relation_size(relid) AS bytes, last_autovacuum,
           last_autoanalyze, n_mod_since_analyze
    FROM pg_stat_user_tables ORDER BY pg_total_relation_size(relid) DESC
""")


def write_bundle(
    target: Path, parts: ServiceParts, findings: Iterable[Diagnosis], logs: Iterable[Path]
) -> None:
    """Write a ZIP archive of JSON and text files to `target`, which only its owner can read."""
    hide = _hiding(parts.settings)
    target.touch(mode=0o600)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, lines: Iterable[str]) -> None:
            archive.writestr(name, "".join(f"{hide(line)}\n" for line in lines))

        add("checks.ndjson", (_json(asdict(it)) for it in findings))
        add("settings.json", [_json(describe_settings(parts.settings))])
        add("versions.json", [_json(_versions())])
        add("queues.json", _guarded(lambda: [_json(_queues(parts))]))
        add("activity.ndjson", _guarded(lambda: _rows(parts, _ACTIVITY)))
        add("tables.ndjson", _guarded(lambda: _rows(parts, _TABLES)))
        for log in logs:
            with log.open(encoding="utf-8", errors="replace") as file:
                add(f"logs/{log.name}", _last_lines(file))
        if (journal := _journal()) is not None:
            add("logs/journal.txt", journal)


def describe_settings(settings: Settings) -> dict[str, Any]:
    """Return every setting by its variable. Of a secret, return only whether it is set."""
    return {
        variable_of(it): _describe(getattr(settings, it.name), is_secret=it.metadata["secret"])
        for it in fields(settings)
        if "secret" in it.metadata
    }


def hide_literals(statement: str) -> str:
    """Return a statement without its texts and numbers, also if its end is missing."""
    return _LITERAL.sub("?", statement)


def _describe(value: Any, *, is_secret: bool) -> Any:
    if is_secret:
        return "set" if value else "not set"
    if isinstance(value, str):
        return _PASSWORD_OF_ADDRESS.sub(f"{_HIDDEN}@", value).partition("?")[0]
    return value


def _hiding(settings: Settings) -> Callable[[str], str]:
    """Return a function that replaces all secrets of the settings and addresses of e-mail in a text."""
    secrets: set[str] = set()
    for it in fields(settings):
        value = getattr(settings, it.name)
        if it.metadata.get("secret") and isinstance(value, str):
            secrets |= {part.strip() for part in (value, *value.split(","))}
            if password := urlsplit(value).password:
                secrets.add(password)
    long_enough = sorted((it for it in secrets if len(it) >= 4), key=len, reverse=True)
    hidden = re.compile("|".join([*map(re.escape, long_enough), _EMAIL_ADDRESS.pattern]))
    return lambda line: hidden.sub(_HIDDEN, line)


def _versions() -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).isoformat(),
        "migration-service": version("migration-service"),
        "newest revision": NEEDED,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "packages": dict(sorted((it.name, it.version) for it in distributions())),
    }


def _queues(parts: ServiceParts) -> dict[str, Any]:
    broker = read_broker(parts.redis, QUEUES, KEY_PREFIX)
    info: Mapping[str, Any] = parts.redis.info()
    known = ("redis_version", "used_memory", "maxmemory", "connected_clients", "aof_last_write_status")
    return {
        "messages": broker.waiting,
        "unacknowledged": broker.unacknowledged,
        "redis": {name: info.get(name) for name in known},
    }


def _rows(parts: ServiceParts, statement: Any) -> Iterator[str]:
    with parts.sessions.begin() as session:
        server = session.scalar(text("SHOW server_version"))
        rows = session.execute(statement).mappings().all()
    yield _json({"postgresql": server})
    for row in rows:
        shown = dict(row)
        if "query" in shown:
            shown["query"] = hide_literals(shown["query"] or "")
        yield _json(shown)


def _guarded(read: Callable[[], Iterable[str]]) -> list[str]:
    try:
        return list(read())
    except (SQLAlchemyError, RedisError, OSError) as error:
        return [_json({"error": type(error).__name__})]


def _last_lines(file: IO[str]) -> Iterable[str]:
    return deque((line.rstrip("\n")[:_LONGEST_LINE] for line in file), maxlen=LOG_LINES)


def _journal() -> Iterable[str] | None:
    """Return the last lines of the units' journal, or None on a machine without them."""
    if shutil.which("journalctl") is None:
        return None
    command = ("journalctl", "--unit=migration-service-*", f"--lines={LOG_LINES}", "--no-pager", "--quiet")
    found = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return [line[:_LONGEST_LINE] for line in found.stdout.splitlines()] or None


def _json(value: Any) -> str:
    return json.dumps(value, default=str)

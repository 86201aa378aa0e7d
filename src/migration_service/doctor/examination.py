"""The checks of `migration-service doctor`, with a function for each part."""

import time
from collections.abc import Iterator
from dataclasses import replace

from kombu.exceptions import OperationalError as BrokerError
from redis import RedisError
from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from migration_service.db.commits import COMMIT_SECONDS, CommitWait, find_commit_wait
from migration_service.db.engine import ONLY_READS, service_engine
from migration_service.db.needed_tables import NEEDED, current_revision, obstacle
from migration_service.doctor import work_checks
from migration_service.doctor.diagnosis import Check, Diagnosis, ServiceParts, Verdict, ok, warning, wrong
from migration_service.metrics.disks import read_disks
from migration_service.services.batches.intake.spool import has_room

#: The largest acceptable difference between two clocks, in seconds.
_CLOCK_TOLERANCE = 2.0
_OLDEST_POSTGRES = 15
#: The share of used memory at which Redis counts as full.
_FULL = 0.95
#: The SQLSTATE of PostgreSQL for a full disk.
_DISK_FULL = "53100"
#: A statement that writes some megabytes to the disk, which PostgreSQL removes at its end.
_SMALL_MEMORY = "SET LOCAL work_mem = '64kB'"
_FILL_TEMPORARY_FILE = "SELECT count(*) FROM generate_series(1, 300000)"
#: Whether the role may change tables, the audit or what its trigger looks at.
_MAY_CREATE = """
    SELECT has_schema_privilege('public', 'CREATE') OR has_database_privilege(current_database(), 'TEMPORARY')
        OR has_table_privilege('audit_entry', 'UPDATE, DELETE')
        OR has_table_privilege('audit_day', 'INSERT, UPDATE, DELETE')
"""


def examine(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check every part. A part is not checked if one that it needs is unavailable."""
    unhealthy: set[str] = set()
    for part, check, needed in _CHECKS:
        if missing := [name for name in needed if name in unhealthy]:
            yield Diagnosis(part, Verdict.UNKNOWN, f"not checked, because {missing[0]} is unavailable")
            continue
        for finding in _guarded(part, check, parts):
            if finding.verdict is Verdict.WRONG:
                unhealthy.add(part)
            yield finding


def _guarded(part: str, check: Check, parts: ServiceParts) -> Iterator[Diagnosis]:
    try:
        for finding in check(parts):
            yield replace(finding, part=finding.part or part)
    except (SQLAlchemyError, RedisError, BrokerError, OSError, ValueError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()
        seen = f"failed: {reason[0] if reason else type(error).__name__}"
        yield wrong(seen, _advice_on_disk(error) or _ADVICE.get(part, ""), part=part)


def _advice_on_disk(error: Exception) -> str:
    """Return the advice if this error means that a disk is full, or else an empty string."""
    if getattr(getattr(error, "orig", None), "sqlstate", None) == _DISK_FULL:
        return "Free disk space where PostgreSQL keeps its data: its disk is full."
    if "MISCONF" in str(error):
        return "Free disk space where Redis keeps its data: it cannot write to its disk. Its log says why."
    return ""


_ADVICE = {
    "database": "Check that PostgreSQL is running, and that DATABASE_URL has its address and password.",
    "redis": "Check that Redis or Valkey is running, and that REDIS_URL has its address and password.",
    "revisions": "Apply the revisions: migration-service revisions upgrade",
}


def check_settings(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Find settings that must not be used in production."""
    settings = parts.settings
    if len(set(settings.secret_key)) < 10:
        yield warning(
            "MIGRATION_SERVICE_SECRET_KEY does not look random", "Use 32 or more random characters."
        )
    else:
        yield ok(f"read; the home folder is {settings.home}")


def check_disks(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that the disks of this machine have room for files of batches, and for embedded servers."""
    for disk in read_disks(parts.settings.home, parts.settings.upload_folder):
        part, seen = f"disk {disk.kept}", f"{disk.folder}: {disk.room}"
        if disk.kept == "uploads" and not has_room(disk.folder):
            yield wrong(
                f"{seen}: files of batches are refused with upload_storage_full",
                "Free space on it, or set MIGRATION_SERVICE_UPLOAD_FOLDER to a folder on a larger disk.",
                part=part,
            )
        elif not has_room(disk.folder):
            yield wrong(f"{seen}: it is full", "Free disk space, or nothing can be written.", part=part)
        elif disk.is_nearly_full:
            advice = "Free disk space, before nothing can be written."
            yield warning(f"{seen}: it is nearly full", advice, part=part)
        else:
            yield ok(seen, part=part)


def check_database(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that PostgreSQL answers, writes, commits and is recent enough."""
    with parts.sessions.begin() as session:
        only_reads = session.scalar(text(ONLY_READS))
        is_standby = session.scalar(text("SELECT pg_is_in_recovery()"))
        owns_tables = session.scalar(text(_MAY_CREATE))
        version = int(session.scalar(text("SHOW server_version_num")) or 0) // 10_000
    if version < _OLDEST_POSTGRES:
        yield wrong(f"PostgreSQL {version}", f"Upgrade to PostgreSQL {_OLDEST_POSTGRES} or newer.")
    elif only_reads and not is_standby:
        yield wrong(
            f"PostgreSQL {version} answers, and only reads: default_transaction_read_only is on",
            "Find out who set it and why, for example a full disk. Then: "
            "ALTER SYSTEM RESET default_transaction_read_only; SELECT pg_reload_conf()",
        )
    elif only_reads:
        yield wrong(
            f"PostgreSQL {version} answers, and only reads: it is a standby",
            "Set DATABASE_URL to the server that accepts writes: "
            "postgresql://...@one:5432,two:5432/name?target_session_attrs=read-write",
        )
    elif waits := _find_commit_wait(parts):
        yield _report_commit_wait(version, waits)
    elif owns_tables:
        yield warning(
            f"PostgreSQL {version} answers, and the service's role may change tables, or the audit",
            "Give DATABASE_URL a separate role, and run migration-service revisions upgrade as the owner of "
            "the database: see docs/operators/install.md.",
        )
    else:
        yield ok(f"PostgreSQL {version} answers, writes and commits")


def _find_commit_wait(parts: ServiceParts) -> CommitWait | None:
    """Let PostgreSQL write to its disk and commit. Return the wait of the commit, or None."""
    with parts.sessions.begin() as session:
        session.execute(text(_SMALL_MEMORY))
        session.execute(text(_FILL_TEMPORARY_FILE))
    engine = service_engine(parts.settings, "migration-doctor")
    try:
        return find_commit_wait(engine)
    finally:
        engine.dispose()


def _report_commit_wait(version: int, waits: CommitWait) -> Diagnosis:
    seen = f"PostgreSQL {version} answers, but did not commit within {COMMIT_SECONDS:.0f} s"
    if waits.for_standby:
        return wrong(
            f"{seen}: commits wait for a synchronous standby that is missing or behind "
            f"(synchronous_standby_names = {waits.synchronous_standby_names!r})",
            "Start the standby, or look why it is behind (pg_stat_replication). To continue without it, "
            "and so without a second copy: "
            "ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf()",
        )
    cause = f" (wait event {waits.wait_event})" if waits.wait_event else ""
    return wrong(f"{seen}{cause}", "Look at PostgreSQL's disk: it may be slow, full, or not answer at all.")


def check_redis(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that Redis answers, has memory left and never evicts keys."""
    parts.redis.ping()
    memory = parts.redis.info("memory")
    used, limit = int(memory["used_memory"]), int(memory.get("maxmemory", 0))
    policy = memory.get("maxmemory_policy", "noeviction")
    seen = f"answers; {used / 1e6:.0f} MB of memory used" + (f" of {limit / 1e6:.0f} MB" if limit else "")
    if limit and used > limit * _FULL and policy == "noeviction":
        yield wrong(
            f"{seen}: it is full",
            "Give it more memory (CONFIG SET maxmemory). Until then no account is processed.",
        )
    elif policy != "noeviction":
        yield warning(
            f"answers, but may evict messages: maxmemory-policy is {policy}",
            "Set maxmemory-policy to noeviction. Otherwise messages are delayed, though no account is lost.",
        )
    else:
        yield ok(seen)


def check_revisions(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that the tables have the revision of this version."""
    with parts.sessions.begin() as session:
        found = current_revision(session.connection())
    if found != NEEDED:
        seen = f"the tables are at revision {found or 'none'}, not {NEEDED}"
        yield wrong(seen, obstacle(found) or _ADVICE["revisions"])
    else:
        yield ok(f"the tables are at revision {NEEDED}")


def check_clocks(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Compare the clocks of this machine, the database and Redis, on which leases and redelivery depend."""
    before = time.time()
    with parts.sessions.begin() as session:
        database = float(session.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0)
    seconds, microseconds = parts.redis.time()
    here = (before + time.time()) / 2
    difference = max(abs(database - here), abs(seconds + microseconds / 1e6 - here))
    if difference > _CLOCK_TOLERANCE:
        yield wrong(f"{difference:.1f} s apart", "Synchronise the clocks of all machines (NTP).")
    else:
        yield ok("this machine, the database and Redis agree")


#: The checks in their order, with the parts that each needs.
_CHECKS: tuple[tuple[str, Check, tuple[str, ...]], ...] = (
    ("settings", check_settings, ()),
    ("disk", check_disks, ()),
    ("database", check_database, ()),
    ("redis", check_redis, ()),
    ("revisions", check_revisions, ("database",)),
    ("clocks", check_clocks, ("database", "redis")),
    ("beat", work_checks.check_beat, ("redis",)),
    ("slots", work_checks.check_slots, ("database", "redis")),
    ("suppliers", work_checks.check_suppliers, ("database",)),
    ("vendors", work_checks.check_vendors, ("database", "redis")),
    ("batches", work_checks.check_batches, ("database",)),
    ("attempts", work_checks.check_stuck_attempts, ("database",)),
    ("events", work_checks.check_events, ("database", "revisions")),
    ("e-mail", work_checks.check_messages, ("database", "revisions")),
    ("certificates", work_checks.check_certificates, ("database", "revisions")),
    ("statements", work_checks.check_statements, ("database",)),
    # The last, because their number is unknown, so that their answers are waited for.
    ("workers", work_checks.check_workers, ("redis",)),
)

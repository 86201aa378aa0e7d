"""The chain of hashes over the days of the audit, and the removal of old days.

A day is sealed an hour after its end: its entries are hashed together with the hash of the previous day. An
entry that is removed, changed or added afterwards is detected, and so is a missing day.

A failover to a standby that was behind, or a restore to an earlier moment, removes the newest entries from
the end of the chain, which then continues. That is a gap, and no mismatch: each entry has the timeline of its
server.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_service.models import AuditDay, AuditEntry
from migration_service.schemas.events import EventType
from migration_service.services.events.recording import record_for_all

#: How long after the end of a day `verify_chain` accepts that the day is not sealed.
_SEALED_WITHIN = timedelta(hours=25)


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify_chain`."""

    days: int
    entries: int
    #: Days whose entries were removed at the end of their retention period.
    removed_days: int
    #: The hash of the newest sealed day, in hexadecimal. Keep it elsewhere.
    head: str | None
    #: Mismatches. Empty if nothing was changed.
    problems: list[str]
    #: When another server took over, or a backup, which may have lacked the newest entries.
    gaps: list[str]


@dataclass(frozen=True, slots=True)
class _Gap:
    """The last entry on one timeline, and the first on the next one."""

    since: datetime
    until: datetime
    earlier: int
    timeline: int

    def __str__(self) -> str:
        return (
            f"{_minute(self.since)} to {_minute(self.until)}: another server or a backup took over (timeline "
            f"{self.earlier} to {self.timeline}). Entries that only the earlier server had are missing."
        )

    def hides_seal_of(self, day: date, sealed_at: datetime | None) -> bool:
        """Return True if the earlier server may have sealed this day, and the later one again or never."""
        due = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1, hours=1)
        return due <= self.until and (sealed_at is None or sealed_at > self.since)


def seal_days(session: Session) -> dict[date, str]:
    """Seal every past day that is not sealed yet, and return the head of each. Each has an event with it."""
    sealed = session.execute(text("SELECT day, chain_sha256 FROM audit_seal_days()")).all()
    heads = {row.day: bytes(row.chain_sha256).hex() for row in sealed}
    for day, head in heads.items():
        record_for_all(session, EventType.AUDIT_DAY_SEALED, {"day": day, "head": head})
    return heads


def remove_days(session: Session, *, after_days: int) -> int:
    """Remove the entries of older sealed days, and return their number. The hashes of the days are kept.

    The database never removes entries of the last ninety days.
    """
    before = datetime.now(UTC).date() - timedelta(days=after_days)
    removed: int = session.scalar(text("SELECT audit_remove_days(:before)"), {"before": before}) or 0
    return removed


def keep_heads(file: str, heads: Mapping[date, str]) -> None:
    """Append the heads of sealed days to a file, which `read_heads` reads."""
    with Path(file).open("a") as kept:
        kept.writelines(f"{day} {head}\n" for day, head in sorted(heads.items()))


def read_heads(head_or_file: str) -> list[str]:
    """Return the heads in a file of `keep_heads`, or the one that is given itself, in lower case."""
    if not Path(head_or_file).is_file():
        return [head_or_file.lower()]
    lines = Path(head_or_file).read_text(errors="replace").splitlines()
    return [line.split()[-1].lower() for line in lines if line.strip()]


def verify_chain(session: Session, known_heads: Iterable[str] = ()) -> Verification:
    """Recompute every hash and compare it with the stored one.

    `known_heads` were kept outside of the database, and must still be in the chain.
    """
    problems: list[str] = []
    days = session.scalars(select(AuditDay).order_by(AuditDay.day)).all()
    previous: AuditDay | None = None
    for day in days:
        if previous is not None and day.day != previous.day + timedelta(days=1):
            problems.append(f"{previous.day + timedelta(days=1)}: the day is missing.")
        if day.chain_sha256 != _chained(previous, day):
            problems.append(f"{day.day}: the hash does not follow from that of the day before.")
        problems += _check_entries(session, day)
        previous = day
    problems += _check_ends(session, days[0] if days else None, previous)
    gaps = [_Gap(*row) for row in session.execute(_GAPS)]
    named = [str(gap) for gap in gaps]
    heads = {day.chain_sha256.hex() for day in days}
    if lacking := [head for head in known_heads if head not in heads]:
        # The day after the last one may have been sealed, too.
        sealed = [(day.day, day.sealed_at) for day in days]
        ends = [*sealed, *([(previous.day + timedelta(days=1), None)] if previous else [])]
        lost = [day for day, sealed_at in ends if any(gap.hides_seal_of(day, sealed_at) for gap in gaps)]
        if lost:
            named.append(
                f"{_not_in_chain(lacking)} If it is that of {' or '.join(map(str, lost))}, it was "
                "lost in a gap: verify with an earlier head, too."
            )
        else:
            problems.append(_not_in_chain(lacking))
    return Verification(
        days=len(days),
        entries=session.scalar(select(func.count()).select_from(AuditEntry)) or 0,
        removed_days=sum(day.removed_at is not None for day in days),
        head=previous.chain_sha256.hex() if previous else None,
        problems=problems,
        gaps=named,
    )


def _not_in_chain(heads: Sequence[str]) -> str:
    more = f", and {len(heads) - 1} more" if len(heads) > 1 else ""
    return f"The known head {heads[0]}{more} is not in the chain."


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _chained(previous: AuditDay | None, day: AuditDay) -> bytes:
    # The database computes the same in audit_seal_days().
    before = previous.chain_sha256 if previous else b""
    return sha256(before + f"{day.day:%Y-%m-%d} {day.entries} ".encode() + day.entries_sha256).digest()


def _check_entries(session: Session, day: AuditDay) -> list[str]:
    found = session.execute(text("SELECT * FROM audit_hash(:day)"), {"day": day.day}).one()
    if day.removed_at is not None:
        return [f"{day.day}: it was removed, and has {found.entries} entries."] if found.entries else []
    if found.entries != day.entries:
        return [f"{day.day}: it was sealed with {day.entries} entries, and has {found.entries}."]
    if found.sha256 != day.entries_sha256:
        return [f"{day.day}: an entry was changed."]
    return []


def _check_ends(session: Session, first: AuditDay | None, last: AuditDay | None) -> list[str]:
    oldest: datetime | None = session.scalar(select(func.min(AuditEntry.at)))
    problems = []
    if first and oldest and oldest.astimezone(UTC).date() < first.day:
        problems.append(f"{oldest.astimezone(UTC).date()}: there are entries before the first sealed day.")
    unsealed = last.day + timedelta(days=1) if last else oldest and oldest.astimezone(UTC).date()
    if unsealed:
        end = datetime(unsealed.year, unsealed.month, unsealed.day, tzinfo=UTC) + timedelta(days=1)
        if datetime.now(UTC) > end + _SEALED_WITHIN:
            problems.append(f"{unsealed}: the day was not sealed. Does beat run?")
    return problems


_GAPS = text("""
    SELECT since, at, earlier, timeline FROM (
        SELECT at, timeline, lag(at) OVER entries AS since, lag(timeline) OVER entries AS earlier
        FROM audit_entry
        WINDOW entries AS (ORDER BY id)
    ) AS entry
    WHERE timeline <> earlier ORDER BY at
""")

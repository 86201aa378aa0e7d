"""The named checks of a programme, before a wave starts and before go-live.

Each says what it found in one of the sentences of `SAYS`, which determines its result, and what to do. A
sentence has no number that changes by itself, because an accepted warning stays accepted only while the
sentence stays the same.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service import states
from migration_service.models import Batch, ImportSupplier, OperationsTeam, PaymentVendor
from migration_service.origin import fold_names
from migration_service.services.batches import clock
from migration_service.services.reconciliation.book_totals import read_book
from migration_service.services.reconciliation.differences import Totals
from migration_service.services.reconciliation.submitted import count_submitted
from migration_service.services.reconciliation.verdict import judge
from migration_service.services.setup.backups import find_last_backup
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.services.undo.go_live import Gate, GoLiveOrder, ask_gate
from migration_service.services.waves.plans import count_pending
from migration_service.services.waves.reports import PlanReport, WaveReport

#: The age from which a backup is too old.
_OLDEST_BACKUP = timedelta(days=1)
#: The bytes that the database needs for an account that is created (docs/operators/scaling.md).
_BYTES = 20_000

_PASSED, _WARNING, _FAILED = states.CheckResult.PASSED, states.CheckResult.WARNING, states.CheckResult.FAILED
#: The result, the sentence and what to do, by what a check found. The console translates both.
SAYS: dict[str, tuple[states.CheckResult, str, str]] = {
    "team": (_PASSED, "Accounts are created for the operations team %(team)s.", ""),
    "some_team": (_PASSED, "There is an operations team.", ""),
    "no_team": (_FAILED, "There is no operations team.", "Let an operator create one."),
    "other_team": (
        _WARNING,
        "The wave creates accounts for the team %(team)s, and the last rehearsal was for %(rehearsed)s.",
        "Change the team of the wave, or accept that it is another one.",
    ),
    "vendors": (_PASSED, "No call to a payment vendor failed last.", ""),
    "vendors_fail": (
        _WARNING,
        "These payment vendors do not answer: %(vendors)s.",
        "Ask the vendor, or let an operator correct its address and secret.",
    ),
    "mail_held": (_PASSED, "E-mails to customers are held when their account is created.", ""),
    "mail_off": (_PASSED, "Customers get no e-mail when their account is created.", ""),
    "mail_on": (
        _WARNING,
        "Customers get an e-mail as soon as their account is created, and an undo is then blocked.",
        "Let an operator hold the e-mails until go-live.",
    ),
    "fits": (_PASSED, "Nine of ten waves like wave %(wave)s end within its window.", ""),
    "no_window": (_PASSED, "Wave %(wave)s has no window, so it may take as long as it needs.", ""),
    "does_not_fit": (
        _WARNING,
        "Wave %(wave)s may need more than one opening of its window.",
        "Change its window, or accept that it goes on in the next one.",
    ),
    "no_rate": (
        _WARNING,
        "Nothing is known of how long wave %(wave)s takes.",
        "Rehearse the book, or migrate a pilot first.",
    ),
    "no_plan": (_WARNING, "No wave is planned that could start.", "Plan the waves."),
    "rehearsed": (_PASSED, "The last rehearsal is not older than the book.", ""),
    "not_rehearsed": (_WARNING, "The book was not rehearsed.", "Start a batch with the mode dry-run."),
    "older_rehearsal": (
        _WARNING,
        "The last rehearsal is older than the book, which is of %(extracted)s.",
        "Rehearse the newest book, or what is pending.",
    ),
    "totals": (_PASSED, "Every file matches its control totals.", ""),
    "no_totals": (
        _WARNING,
        "Files without control totals: %(num)s.",
        "Ask the supplier for them, and give them to the batch.",
    ),
    "wrong_totals": (
        _FAILED,
        "Files that do not match their control totals: %(num)s.",
        "Find out what is missing in the file, or let the supplier correct its totals.",
    ),
    "nothing_open": (_PASSED, "Nothing is open.", ""),
    "older_versions": (
        _WARNING,
        "Accounts of which a newer version was refused: %(num)s.",
        "Have the newer versions corrected, or they fail, or are created from the older one.",
    ),
    "wave_before": (_FAILED, "Wave %(wave)s has not ended.", "Wait for it, approve it or stop it."),
    "is_open": (
        _FAILED,
        "Open: %(open)s. Created accounts that differ: %(differing)s, and that have not been compared: "
        "%(not_compared)s.",
        "Reconcile the supplier. Correct or acknowledge what it lists, or accept it in the receipt.",
    ),
    "other_problems": (_FAILED, "The reconciliation is not clean: %(problems)s.", "Reconcile the supplier."),
    "compared_long_ago": (
        _FAILED,
        "There is no comparison of the last %(hours)s hours.",
        "Reconcile the supplier.",
    ),
    "open_without_gate": (
        _WARNING,
        "The reconciliation is not clean, and go-live does not ask for a receipt.",
        "Reconcile the supplier, or accept that it goes live like this.",
    ),
    "disk": (_PASSED, "The disk of the database has room for the book.", ""),
    "disk_unknown": (
        _WARNING,
        "The database is on another machine: how much of its disk is free is not known here.",
        "Ask whoever runs the database. A million accounts need about 20 GB.",
    ),
    "disk_full": (
        _FAILED,
        "The disk of the database has less than the %(gigabytes)s GB free that the book needs.",
        "Free space on it, or give it more.",
    ),
    "backup": (_PASSED, "The last backup is younger than a day.", ""),
    "no_backup": (
        _WARNING,
        "Nobody has said that a backup was taken.",
        "Take one, and run migration-service backups taken.",
    ),
    "old_backup": (
        _WARNING,
        "The last backup is of %(taken)s.",
        "Take another one, and run migration-service backups taken.",
    ),
    "four_eyes": (_PASSED, "No wave was started and approved by the same person.", ""),
    "two_eyes": (
        _WARNING,
        "The same person started and approved these waves: %(waves)s.",
        "Let another person look at their reconciliation, and accept this with a reason.",
    ),
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What only the process knows that runs the checks, with its settings."""

    gate: Gate
    #: The vendors whose last call failed, and the free bytes of the database's disk, if it is known.
    failing_vendors: Collection[str] = ()
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the checks look at."""

    session: Session
    supplier: KnownSupplier
    plan: PlanReport | None
    #: The next wave that has not started. None before go-live, or if there is none.
    wave: WaveReport | None
    surroundings: Surroundings


Said = tuple[str, Mapping[str, Any]]


def check_team(it: Situation) -> Said:
    """Check that there is a team, and that it is the one of the rehearsal."""
    own = or_(
        OperationsTeam.organisation_id == it.supplier.organisation_id,
        OperationsTeam.organisation_id.is_(None),
    )
    if not it.session.scalar(select(select(OperationsTeam.id).where(own).exists())):
        return "no_team", {}
    if it.wave is None:
        return "some_team", {}
    rehearsal = _find_rehearsal(it)
    team_id = rehearsal.operations_team_id if rehearsal else None
    rehearsed = it.session.get_one(OperationsTeam, team_id).name if team_id else None
    team = it.wave.operations_team_name
    if rehearsed not in (None, team):
        return "other_team", {"team": team, "rehearsed": rehearsed}
    return "team", {"team": team}


def check_vendors(it: Situation) -> Said:
    """Check that no payment vendor fails that the organisation may name."""
    own = or_(
        PaymentVendor.organisation_id == it.supplier.organisation_id, PaymentVendor.organisation_id.is_(None)
    )
    names = {*it.session.scalars(select(PaymentVendor.name).where(own))}
    failing = sorted(names.intersection(it.surroundings.failing_vendors))
    return ("vendors_fail", {"vendors": ", ".join(failing)}) if failing else ("vendors", {})


def check_mail(it: Situation) -> Said:
    """Check that customers get no e-mail before go-live."""
    if not it.supplier.sends_customer_emails:
        return "mail_off", {}
    supplier = it.session.get_one(ImportSupplier, it.supplier.id)
    is_past = supplier.emails_from is not None and supplier.emails_from <= clock.read_clock(it.session)
    return ("mail_on" if supplier.emails_at == states.EmailMoment.AT_CREATION or is_past else "mail_held"), {}


def check_window(it: Situation) -> Said:
    """Check that the wave probably ends within its window."""
    if it.wave is None:
        return "no_plan", {}
    wave = {"wave": it.wave.number}
    if it.wave.window is None:
        return "no_window", wave
    if it.wave.fits_window is None:
        return "no_rate", wave
    return ("fits" if it.wave.fits_window else "does_not_fit"), wave


def check_rehearsal(it: Situation) -> Said:
    """Check that the newest book was rehearsed: the same file, or after it was extracted."""
    rehearsal = _find_rehearsal(it)
    if rehearsal is None:
        return "not_rehearsed", {}
    stored = (states.BatchMode.STAGE, states.BatchMode.IMPORT)
    book = it.session.scalar(
        _batches_of(it).where(Batch.mode.in_(stored), Batch.file_sha256.is_not(None)).limit(1)
    )
    if book is None or book.file_sha256 == rehearsal.file_sha256:
        return "rehearsed", {}
    extracted = book.extracted_at or book.created_at
    if max(rehearsal.created_at, rehearsal.extracted_at or rehearsal.created_at) >= extracted:
        return "rehearsed", {}
    return "older_rehearsal", {"extracted": write_moment(extracted)}


def check_control_totals(it: Situation) -> Said:
    """Check that each file has control totals and matches them."""
    book = read_book(it.session, it.supplier.id, Totals(), None)
    if book.contradicted:
        return "wrong_totals", {"num": book.contradicted}
    missing = sum(file.control_totals_as_given is None for file in book.files)
    return ("no_totals", {"num": missing}) if missing else ("totals", {})


def check_before_wave(it: Situation) -> Said:
    """Check that the waves before have ended, and that no newer version was refused."""
    waves = it.plan.waves if it.plan and it.wave else []
    running = next((before for before in waves if not before.is_over and before != it.wave), None)
    if running is not None and it.wave and running.number < it.wave.number:
        return "wave_before", {"wave": running.number}
    sent = count_submitted(it.session, it.supplier.id, batch_id=None)
    older = sent.staged_older_version + sent.created_older_version
    return ("older_versions", {"num": older}) if older else ("nothing_open", {})


def check_before_go_live(it: Situation) -> Said:
    """Check what go-live asks for: a recent receipt with nothing open, or with exceptions.

    Without that gate, what is open is a warning.
    """
    gate = it.surroundings.gate
    if not gate.hours:
        is_clean = judge(it.session, it.supplier.id).is_clean
        return ("nothing_open" if is_clean else "open_without_gate"), {}
    asked = ask_gate(it.session, GoLiveOrder(supplier=it.supplier, gate=gate))
    open_ = asked.receipt.open if asked.receipt else {}
    found = (states.Problem.OPEN, states.Problem.DIFFERING, states.Problem.NOT_COMPARED)
    if any(problem in open_ for problem in found):
        return "is_open", {problem.lower(): open_.get(problem, 0) for problem in found}
    if open_:
        return "other_problems", {"problems": ", ".join(sorted(open_))}
    return ("nothing_open", {}) if asked.is_compared else ("compared_long_ago", {"hours": f"{gate.hours:g}"})


def check_disk(it: Situation) -> Said:
    """Check that the disk of the database has room for the pending accounts."""
    needed = count_pending(it.session, it.supplier.id) * _BYTES
    if it.surroundings.free_bytes is None:
        return "disk_unknown", {}
    if it.surroundings.free_bytes < needed:
        return "disk_full", {"gigabytes": f"{needed / 1e9:.1f}"}
    return "disk", {}


def check_backup(it: Situation) -> Said:
    """Check that a backup was taken within the last day."""
    taken = find_last_backup(it.session)
    if taken is None:
        return "no_backup", {}
    now: datetime = clock.read_clock(it.session)
    return ("old_backup", {"taken": write_moment(taken)}) if now - taken > _OLDEST_BACKUP else ("backup", {})


def check_four_eyes(it: Situation) -> Said:
    """Check that no wave was started and approved by the same person."""
    waves = it.plan.waves if it.plan else []
    alone = [
        str(it.number) for it in waves if fold_names(it.began_by) & fold_names(it.decided_by, it.decided_as)
    ]
    return ("two_eyes", {"waves": ", ".join(alone)}) if alone else ("four_eyes", {})


def _batches_of(it: Situation) -> Any:
    """Return the query for the supplier's batches of accounts, newest first."""
    accounts = (Batch.import_supplier_id == it.supplier.id, Batch.kind == states.BatchKind.ACCOUNTS)
    return select(Batch).where(*accounts).order_by(func.coalesce(Batch.extracted_at, Batch.created_at).desc())


def _find_rehearsal(it: Situation) -> Batch | None:
    ended = (Batch.mode == states.BatchMode.DRY_RUN, Batch.state == states.BatchState.COMPLETED)
    found: Batch | None = it.session.scalar(_batches_of(it).where(*ended).limit(1))
    return found


Check = Callable[[Situation], Said]
_ALWAYS: dict[states.ReadinessCheck, Check] = {
    states.ReadinessCheck.TEAM_EXISTS: check_team,
    states.ReadinessCheck.VENDORS_ANSWER: check_vendors,
    states.ReadinessCheck.MAIL_HELD: check_mail,
    states.ReadinessCheck.CONTROL_TOTALS_EQUAL: check_control_totals,
    states.ReadinessCheck.BACKUP_RECENT: check_backup,
    states.ReadinessCheck.FOUR_EYES: check_four_eyes,
}
#: The checks before a wave and before go-live, in the order in which people see them.
BEFORE_WAVE: dict[states.ReadinessCheck, Check] = {
    **_ALWAYS,
    states.ReadinessCheck.WINDOW_LONG_ENOUGH: check_window,
    states.ReadinessCheck.REHEARSAL_CURRENT: check_rehearsal,
    states.ReadinessCheck.NOTHING_OPEN: check_before_wave,
    states.ReadinessCheck.DISK_HAS_ROOM: check_disk,
}
BEFORE_GO_LIVE: dict[states.ReadinessCheck, Check] = {
    **_ALWAYS,
    states.ReadinessCheck.NOTHING_OPEN: check_before_go_live,
}

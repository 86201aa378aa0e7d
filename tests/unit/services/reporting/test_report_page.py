"""What the page of a report shows for figures at their bounds: bars, durations, numbers, windows, details."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from html import unescape
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from migration_payloads.normal_form import FieldDifference
from migration_service.services.reconciliation.differences import AccountDifference, Difference, Totals
from migration_service.services.reconciliation.submitted import Submitted
from migration_service.services.reconciliation.verdict import Verdict
from migration_service.services.reporting.report import FailedCode, Report, Versions
from migration_service.services.reporting.report_page import render_report
from migration_service.services.reporting.report_rates import Rates
from migration_service.services.reporting.report_subject import ReportKind, ReportSubject
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.services.waves.reports import PlanReport, WaveReport
from migration_service.states import LineStatus, Weekday

_BATCH_ID = UUID(int=1)
_PLAN, _WAVE = ([field.name for field in fields(it)] for it in (PlanReport, WaveReport))
_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

_SUPPLIER = KnownSupplier(
    id=1,
    organisation_id=1,
    organisation_name="Organisation",
    code="MINE",
    status="Ongoing",
    profile="lenient",
    document_root="",
    sends_customer_emails=False,
    created_at=_AT,
)
_SENT = Submitted(
    sent=1_234,
    refused=2,
    waiting=3,
    staged=4,
    created=5,
    skipped=6,
    acknowledged=7,
    open=8,
    lines_removed=0,
)


def _make(**values: Any) -> Report:
    report = Report(
        subject=ReportSubject(ReportKind.SUPPLIER, _SUPPLIER),
        made_at=_AT,
        live_at=None,
        owners=Counter(old=1_003, new=0),
        verdict=Verdict(sent=_SENT),
        batches=[],
        failed=[],
        rates=None,
        versions=Versions("1.0", "0001", "7", "PostgreSQL 15"),
    )
    return replace(report, **values)


def _of(totals: Totals) -> Verdict:
    return Verdict(sent=_SENT, compared_from=_AT, compared_at=_AT, totals=totals, differing=totals.differing)


def _text(report: Report) -> str:
    """Return the text of the page, with single spaces."""
    page = render_report(report, stylesheet="/report.css")
    return " ".join(unescape(re.sub("<[^>]*>", " ", page)).split())


def test_each_part_in_which_something_was_done_has_a_bar() -> None:
    rates = Rates(_AT, _AT + timedelta(seconds=30), 7.5, [3_000, 0, 1, 1_500])
    page = render_report(_make(rates=rates))
    assert re.findall("<title>(.*)</title></rect>", page) == [
        "3,000 in 7.5 s",
        "1 in 7.5 s",
        "1,500 in 7.5 s",
    ]
    assert "accounts per second; the highest bar is 400.0" in page
    of_batch = replace(_make().subject, batch_ids=())
    assert "lines per second; the" in render_report(_make(rates=rates, subject=of_batch))
    assert "</rect>" not in render_report(_make(rates=replace(rates, done=[0, 0])))


def test_the_verdict_is_at_the_top() -> None:
    assert "8 items are open. Nothing has been compared yet." in _text(_make())
    clean = Verdict(sent=Submitted(), compared_from=_AT, compared_at=_AT)
    told = "Nothing is open, and nothing differs. Compared 2026-01-02 03:04:05"
    assert told in _text(_make(verdict=clean))
    added = replace(_SENT, added_lines_refused=1_000, removed_refused=1, removed_waiting=2, open=0)
    text = _text(_make(verdict=replace(clean, sent=added, created_since=2)))
    assert "3 lines were open when they were removed at the end of their retention period." in text
    assert "; since then 2 accounts were created and 0 undone." in text
    assert "Of what is open, 1,000 lines of added data are refused, and 0 have not been processed." in text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (59.96, "60.0 s"),
        (60, "1 min 00 s"),
        (119.6, "2 min 00 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 00 min"),
        (90_061, "25 h 01 min"),
    ],
)
def test_durations_are_shown_in_two_units(seconds: float, shown: str) -> None:
    rates = Rates(_AT, _AT + timedelta(seconds=seconds), 1.0, [1])
    assert f"From the first to the last: {shown}." in _text(_make(rates=rates))


def test_moments_are_shown_in_utc() -> None:
    live_at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=5)))
    text = _text(_make(live_at=live_at))
    assert "Made 2026-01-02 03:04:05 . Supplier status: Ongoing. Go-live: 2026-01-01 22:04:05 ." in text
    assert (
        "No go-live date is set. Owner of the accounts: the old system of 1,003, the new platform of 0."
        in _text(_make())
    )


def test_numbers_have_separators_and_decimals_as_they_are() -> None:
    totals = Totals(
        measures={
            "ledger_balances": (Decimal("1234567.80"), Decimal("1234567.90")),
            "accounts": (Decimal(2), Decimal(2)),
        },
        differing=1,
        not_comparable=3,
    )
    account = AccountDifference("1", None, [Difference("accounts", Decimal(1), Decimal(0))])
    text = _text(_make(verdict=_of(totals), differences=[account]))
    assert "accounts 2 2 ledger balances 1,234,567.80 1,234,567.90 0.10" in text
    assert "could not be compared 3" in text
    assert "Account Created as Differences 1 accounts: 1 staged, 0 created" in text
    assert "The first" not in text
    assert "Not compared: the file as it was sent" in text
    values = [FieldDifference(f"customers.{index}.email", "old@mail", "new@mail") for index in range(6)]
    text = _text(_make(verdict=_of(totals), differences=[replace(account, differences=[], values=values)]))
    assert "6 values: customers.0.email , customers.1.email" in text
    assert "customers.5.email" not in text
    assert "@mail" not in text
    several = replace(totals, differing=2)
    assert "The first 1 of 2." in _text(_make(verdict=_of(several), differences=[account]))
    clean = replace(totals, differing=0, not_comparable=0, compared=3)
    sentence = "The created accounts are clean: every value of 3 accounts is as it was staged."
    assert sentence in _text(_make(verdict=_of(clean)))


@pytest.fixture
def batch() -> Callable[..., Any]:
    """Make a batch in which each status has another number of lines, the double of the one before."""
    counts = {status: 1 << index for index, status in enumerate(LineStatus)}
    names = [
        *("name", "file_name", "file_bytes", "control_totals_differing", "profile", "reason", "started_at"),
        *("finished_at", "operations_team_name", "brake", "rate", "lines_removed_at"),
    ]
    given: dict[str, Any] = dict.fromkeys(names)
    given |= {
        "created_at": _AT,
        "undone": 0,
        "kind": "accounts",
        "batch_id": _BATCH_ID,
        "mode": "import",
        "source": "upload",
        "state": "RUNNING",
        "lines": 0,
    }
    return lambda **values: SimpleNamespace(**(given | {"counts": counts} | values))


def test_a_batch_without_a_name_is_called_by_what_it_does_and_when(batch: Callable[..., Any]) -> None:
    pending = batch(source="pending")
    for made, title in (
        (batch(name="first", file_name="b.ndjson"), "first"),
        (batch(file_name="b.ndjson"), "b.ndjson"),
        (batch(mode="dry-run"), "dry-run of accounts, 2026-01-02 03:04"),
        (pending, "import of pending accounts, 2026-01-02 03:04"),
    ):
        assert f"{title} {_BATCH_ID}" in _text(_make(batches=[(made, "dora")]))


def test_lines_are_done_failed_or_not_done_yet(batch: Callable[..., Any]) -> None:
    made = batch(lines=4_095, started_at=_AT, rate=12.34)
    counts = made.counts
    is_open = counts[LineStatus.PENDING] + counts[LineStatus.DEFERRED]
    done = sum(counts.values()) - is_open - counts[LineStatus.FAILED]
    subject = ReportSubject(ReportKind.BATCH, _SUPPLIER, (made.batch_id,))
    text = _text(_make(subject=subject, batches=[(made, "dora")], rates=Rates(_AT, _AT, 1.0, [1])))
    failed = counts[LineStatus.FAILED]
    tiles = f"lines planned 4,095 done {done:,} failed {failed:,} not done yet {is_open:,} open 8"
    assert tiles in text
    row = f"RUNNING 4,095 {done:,} {failed:,} 2026-01-02 03:04:05 \N{EN DASH} dora"
    assert row in text
    assert "Rate: 12.3 lines per second." in text
    assert done + failed + is_open == (1 << len(LineStatus)) - 1, "each line counts once"


def test_a_wave_has_its_window() -> None:
    window = {"start": "22:00", "end": "06:00", "time_zone": "Europe/Amsterdam", "first_day": "2026-01-05"}
    subject = ReportSubject(ReportKind.PLAN, _SUPPLIER, (), _BATCH_ID)
    plan: Any = SimpleNamespace(**(dict.fromkeys(_PLAN) | {"waves": [None]}))
    for given, shown in (
        (None, "by hand"),
        ({"days": ["mon", "fri"]}, "22:00 to 06:00 Europe/Amsterdam, mon, fri, from 2026-01-05"),
        ({"days": [*Weekday]}, "22:00 to 06:00 Europe/Amsterdam, every day, from 2026-01-05"),
    ):
        window_of = given and window | given
        values = {"number": 1, "state": "APPROVED", "lines": 1_000, "undone": 0, "window": window_of}
        wave: Any = SimpleNamespace(**(dict.fromkeys(_WAVE) | values))
        text = _text(_make(subject=subject, plan=plan, waves=[wave]))
        assert f"1 APPROVED {shown} 1,000 no error threshold" in text


def test_examples_are_named_by_line_path_and_batch() -> None:
    examples: list[tuple[str, int, str | None]] = [("a", 1, "x.0"), ("a", 2, None), ("b", 3, "y")]
    text = _text(_make(failed=[FailedCode("invalid", 1_000, examples)]))
    assert "invalid 1,000 line 1 x.0 , line 2 of a ; line 3 y of b" in text


def test_what_a_supplier_wrote_is_text(batch: Callable[..., Any]) -> None:
    name = "<script>alert(1)</script>\u202e"
    page = render_report(_make(batches=[(batch(name=name), name)]), stylesheet="/report.css")
    assert "<script" not in page
    assert unescape(page).count(name) == 2


def test_lines_that_were_removed_are_said_to_be(batch: Callable[..., Any]) -> None:
    subject = ReportSubject(ReportKind.BATCH, _SUPPLIER, (_BATCH_ID,))
    for removed_at, shown in (
        (_AT, "The lines were removed on 2026-01-02 03:04:05 ."),
        (None, "No line failed."),
    ):
        made = batch(lines_removed_at=removed_at)
        assert shown in _text(_make(subject=subject, batches=[(made, None)]))

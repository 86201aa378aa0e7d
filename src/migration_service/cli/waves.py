"""`migration-service waves`."""

import json
from collections.abc import Callable
from typing import IO, Any

import click
from sqlalchemy.orm import Session

from migration_payloads.schemas.base import load
from migration_service.cli.batch_error_threshold import describe_threshold
from migration_service.cli.deciding import BY, WORDS
from migration_service.cli.output import (
    Record,
    json_option,
    pick,
    show_done,
    show_json,
    show_list,
    show_record,
    together,
)
from migration_service.cli.session import open_session, open_sessions, read_settings
from migration_service.cli.workers import tell_batch_workers
from migration_service.errors import ErrorItem, RequestFailedValidationError
from migration_service.models import Wave, WavePlan
from migration_service.schemas.waves import WavePlanBodySchema
from migration_service.services.batches import clock
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.waves import acts
from migration_service.services.waves.orders import read_plan
from migration_service.services.waves.plans import plan_waves
from migration_service.services.waves.reading import get_plan, list_plans, lock_wave
from migration_service.services.waves.reports import (
    PlanReport,
    WaveReport,
    describe_found,
    describe_state,
    report_plan,
    report_plans,
)
from migration_service.states import LineStatus

_REASON = click.option(
    "--reason", required=True, type=WORDS, metavar="TEXT", help="The reason. It is kept: no personal data."
)


@click.group()
def waves() -> None:
    """Migrate pending accounts in waves, each with a window and an error threshold."""


@waves.command()
@click.argument("file", type=click.File("rb"))
@json_option
def plan(file: IO[bytes], as_json: bool) -> None:
    """Plan the waves that FILE describes. FILE is JSON, - is standard input.

    \b
    {"import_supplier": "NORTHSTAR", "operations_team_name": "Team A", "continue_if_clean": true,
     "window": {"start": "22:00", "end": "06:00", "time_zone": "Europe/Amsterdam"},
     "waves": [{"name": "Pilot", "sample": 200, "continue_if_clean": false}, {"size": 10000}, {"rest": true}]}

    The format is the body of POST /v1/data-import/wave-plans/, whose description lists all fields.
    """
    with open_session(read_settings()) as session:
        body, errors = load(WavePlanBodySchema(), _parse(file.read()))
        if errors:
            raise RequestFailedValidationError(errors=errors)
        order = read_plan(body, now=clock.read_clock(session))
        supplier = get_import_supplier(session, body["import_supplier"], organisation_id=None)
        report = report_plan(session, plan_waves(session, supplier, order))
    _show(report, as_json)


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        item = ErrorItem("parse_error", f"The file is not JSON: {error}.", "file")
        raise RequestFailedValidationError(errors=[item]) from error


@waves.command("list")
@click.option("--supplier", metavar="CODE", help="Only plans of this import supplier.")
@json_option
def list_all(supplier: str | None, as_json: bool) -> None:
    """List wave plans, newest first."""
    with open_session(read_settings()) as session:
        plans = list_plans(session, organisation_id=None, import_supplier=supplier)
        reports = report_plans(session, plans)
    records = [
        {
            **pick(report, "plan_id", "import_supplier", "name"),
            "waves": ", ".join(wave.state for wave in report.waves),
            **pick(report, "created_at", "finished_at"),
        }
        for report in reports
    ]
    show_list(
        records, as_json, nothing="There are no wave plans yet. Create one: migration-service waves plan FILE"
    )


@waves.command()
@click.argument("plan_id")
@json_option
def show(plan_id: str, as_json: bool) -> None:
    """Show the plan PLAN_ID and the progress of its waves.

    The result of reconciliation has the time at which it was found. Accounts that were open then were neither
    created nor skipped nor acknowledged.
    """
    with open_session(read_settings()) as session:
        report = report_plan(session, get_plan(session, plan_id, organisation_id=None))
    _show(report, as_json)


def _show(report: PlanReport, as_json: bool) -> None:
    if as_json:
        show_json(report)
        return
    head = pick(report, *PlanReport.__slots__).items()
    known = {name: value for name, value in head if name != "waves" and value is not None}
    show_record(known, as_json=False)
    show_list([_row(wave) for wave in report.waves], as_json=False, nothing="")


def _row(wave: WaveReport) -> Record:
    return {
        "wave": wave.number,
        "name": wave.name,
        "state": describe_state(wave),
        "accounts": wave.lines,
        "done": wave.lines - wave.counts[LineStatus.PENDING] - wave.undone,
        "failed": wave.counts[LineStatus.FAILED],
        "reconciliation": describe_found(wave),
        "existing": wave.existing,
        "undone": wave.undone or None,
        "opens_at": wave.opens_at,
        "closes_at": wave.closes_at,
        "if_clean": "continues" if wave.continue_if_clean else "a person decides",
        "error_threshold": describe_threshold(wave.brake) if wave.brake else None,
        "decided_by": wave.decided_by,
        "batch_id": wave.batch_id,
    }


_wave_command = together(
    click.argument("plan_id"), click.argument("number", type=click.IntRange(1)), json_option
)


@waves.command()
@_wave_command
def start(plan_id: str, number: int, as_json: bool) -> None:
    """Start wave NUMBER of PLAN_ID by hand. A wave with a window starts only within its window."""
    _act(plan_id, number, acts.start_wave, as_json)


@waves.command()
@_wave_command
def pause(plan_id: str, number: int, as_json: bool) -> None:
    """Pause wave NUMBER of PLAN_ID until it is resumed by hand, even if its next window opens."""
    _act(plan_id, number, acts.pause_wave, as_json)


@waves.command()
@_wave_command
def resume(plan_id: str, number: int, as_json: bool) -> None:
    """Resume wave NUMBER of PLAN_ID: now, or in its next window if its window is closed."""
    _act(plan_id, number, acts.resume_wave, as_json)


@waves.command()
@_wave_command
def reconcile(plan_id: str, number: int, as_json: bool) -> None:
    """Reconcile wave NUMBER of PLAN_ID again, after something was corrected or acknowledged."""
    _act(plan_id, number, acts.reconcile_wave, as_json)


@waves.command()
@_wave_command
@_REASON
@BY
def approve(plan_id: str, number: int, reason: str, by: str | None, as_json: bool) -> None:
    """Approve wave NUMBER of PLAN_ID, which has been reconciled, so that the next wave can start."""
    _act(plan_id, number, lambda *args: acts.approve_wave(*args, reason=reason, by=by), as_json)


@waves.command()
@_wave_command
@_REASON
@BY
def stop(plan_id: str, number: int, reason: str, by: str | None, as_json: bool) -> None:
    """Stop wave NUMBER of PLAN_ID and every later wave permanently. Created accounts are kept."""
    _act(plan_id, number, lambda *args: acts.stop_wave(*args, reason=reason, by=by), as_json)


def _act(plan_id: str, number: int, action: Callable[[Session, WavePlan, Wave], None], as_json: bool) -> None:
    settings = read_settings()
    with open_sessions(settings) as sessions:
        with sessions.begin() as session:
            found = get_plan(session, plan_id, organisation_id=None)
            wave = lock_wave(session, found, number)
            action(session, found, wave)
            session.flush()
            state = str(wave.state) + (f" ({wave.reason})" if wave.reason else "")
            record = {"plan_id": plan_id, "number": number, "state": str(wave.state), "reason": wave.reason}
        tell_batch_workers(settings, sessions)
    show_done(record, as_json, f"Wave {number} of {plan_id} is now {state}.")

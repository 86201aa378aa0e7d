"""Wave plans, which migrate a supplier's pending accounts in waves with windows and decisions."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from flask import url_for
from sqlalchemy.orm import Session

from migration_payloads.schemas.coded import example_of
from migration_service import errors
from migration_service.blueprints.batch_upload import intake_limits
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body, query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, answer_with_effect, idempotent
from migration_service.blueprints.requests.interface import (
    caller,
    make_blueprint,
    supplier_in_body,
    telling_unknown_names,
)
from migration_service.blueprints.requests.places import begin_answer, while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.models import Wave, WavePlan
from migration_service.schemas import waves
from migration_service.services.batches import clock
from migration_service.services.setup.suppliers import list_owned
from migration_service.services.waves import acts
from migration_service.services.waves.orders import read_change, read_plan
from migration_service.services.waves.plans import plan_waves
from migration_service.services.waves.reading import get_plan, lock_wave
from migration_service.services.waves.reports import PlanReport, report_plan, report_plans
from migration_service.tasks.batches import feed_batches

blueprint = make_blueprint(
    "waves",
    "wave-plans",
    "Migrate pending accounts in waves, each with a window, an error threshold and a decision after it.",
)

_PLAN = waves.WavePlanAnswerSchema.example(finished_at=None, undo_id=None)
_WAVE_ERRORS = (errors.WavePlanNotFoundError, errors.WaveNotFoundError, errors.WaveStateError)


def _find_misfits(body: dict[str, Any]) -> Sequence[errors.ErrorItem]:
    try:
        read_plan(body, now=datetime.now(UTC))
    except errors.RequestFailedValidationError as error:
        return error.errors
    return ()


@blueprint.post("/", endpoint="plan_waves")
@idempotent()
@blueprint.response(201, waves.WavePlanAnswerSchema, example=_PLAN, headers=refer("Location"))
@answers_errors(
    *KEY_ERRORS,
    errors.ImportSupplierNotFoundInBodyError,
    errors.ImportSupplierPausedError,
    errors.ImportSupplierCompleteError,
    errors.OperationsTeamNotFoundError,
    errors.WavePlanOpenError,
    errors.TooManyUploadsError,
    errors.TooManyOpenBatchesError,
    errors.BatchStorageQuotaError,
)
@json_body(waves.WavePlanBodySchema(), example_of(waves.WavePlanBodySchema), find_misfits=_find_misfits)
@while_client_waits
def plan(body: dict[str, Any]) -> Any:
    """Plan the waves of a supplier

    Divides the accounts that are pending now into waves. Each wave is a batch that is paused until the wave
    starts: in its window or, without a window, after the previous wave. A first wave without a window is
    started by hand. A supplier has one plan at a time.
    """
    sender, quotas = caller(), intake_limits(resources().settings).quotas
    with resources().Session.begin() as session:
        with telling_unknown_names(body):
            order = read_plan(body, now=clock.read_clock(session), api_key_id=sender.api_key_id)
        supplier = supplier_in_body(session, body)
        made = plan_waves(
            session,
            supplier,
            order,
            quotas,
            on_accepted=lambda plan_id: begin_answer(201, _location(plan_id)),
        )
        report = waves.WavePlanAnswerSchema().dump(report_plan(session, made))
        return answer_with_effect(session, report, 201, _location(made.id))


@blueprint.get("/", endpoint="list_plans")
@query_arguments(waves.WavePlanListArgumentsSchema())
@blueprint.response(200, waves.WavePlanAnswerSchema(many=True), example=[_PLAN])
@answers_errors()
def list_all(arguments: dict[str, Any]) -> list[PlanReport]:
    """List the organisation's wave plans, newest first

    At most the last fifty are listed, each with its waves.
    """
    with resources().Session.begin() as session:
        plans = list_owned(session, WavePlan, organisation_id=caller().organisation_id, **arguments)
        return report_plans(session, plans)


@blueprint.get("/<plan_id>/", endpoint="get_plan")
@blueprint.response(200, waves.WavePlanAnswerSchema, example=_PLAN)
@answers_errors(errors.WavePlanNotFoundError)
def get(plan_id: str) -> PlanReport:
    """Get a wave plan and the progress of its waves

    The results of a wave are those of its batch.
    """
    with resources().Session.begin() as session:
        found = get_plan(session, plan_id, organisation_id=caller().organisation_id)
        return report_plan(session, found)


@blueprint.patch("/<plan_id>/waves/<int:number>/", endpoint="change_wave")
@blueprint.response(200, waves.WavePlanAnswerSchema, example=_PLAN)
@answers_errors(*_WAVE_ERRORS, errors.OperationsTeamNotFoundError)
@json_body(waves.WaveChangeBodySchema(), example_of(waves.WaveChangeBodySchema))
def change(body: dict[str, Any], plan_id: str, number: int) -> PlanReport:
    """Change a wave that has not started

    Its window, its rate, its error threshold, whether the next wave waits for an approval, and its team can
    be changed, each by itself. Its accounts stay the same.
    """

    def change_wave(session: Session, plan: WavePlan, wave: Wave) -> None:
        acts.change_wave(session, plan, wave, read_change(body, now=clock.read_clock(session)))

    return _act(plan_id, number, change_wave)


@blueprint.post("/<plan_id>/waves/<int:number>/start/", endpoint="start_wave")
@blueprint.response(200, waves.WavePlanAnswerSchema, example=_PLAN)
@answers_errors(*_WAVE_ERRORS, errors.WaveWindowClosedError)
def start(plan_id: str, number: int) -> PlanReport:
    """Start a wave by hand

    It must be the wave's turn. A wave with a window starts only within its window.
    """
    return _act(plan_id, number, acts.start_wave)


@blueprint.post("/<plan_id>/waves/<int:number>/pause/", endpoint="pause_wave")
@blueprint.response(200, waves.WavePlanAnswerSchema, example=_PLAN)
@answers_errors(*_WAVE_ERRORS)
def pause(plan_id: str, number: int) -> PlanReport:
    """Pause a wave until it is resumed by hand

    It stays paused even if its next window opens. Workers finish the lines that they have.
    """
    return _act(plan_id, number, acts.pause_wave)


@blueprint.post("/<plan_id>/waves/<int:number>/resume/", endpoint="resume_wave")
@blueprint.response(200, waves.WavePlanAnswerSchema, example=_PLAN)
@answers_errors(*_WAVE_ERRORS)
def resume(plan_id: str, number: int) -> PlanReport:
    """Resume a paused wave

    It continues now, or in its next window if its window is closed. Its error threshold starts to count
    again.
    """
    return _act(plan_id, number, acts.resume_wave)


@blueprint.post("/<plan_id>/waves/<int:number>/reconcile/", endpoint="reconcile_wave")
@blueprint.response(200, waves.WavePlanAnswerSchema, example=_PLAN)
@answers_errors(*_WAVE_ERRORS)
def reconcile(plan_id: str, number: int) -> PlanReport:
    """Reconcile a wave again

    Use this after something was corrected or acknowledged.
    """
    return _act(plan_id, number, acts.reconcile_wave)


@blueprint.post("/<plan_id>/waves/<int:number>/approve/", endpoint="approve_wave")
@blueprint.response(200, waves.WavePlanAnswerSchema, example=_PLAN)
@answers_errors(*_WAVE_ERRORS)
@json_body(waves.WaveDecisionBodySchema(), example_of(waves.WaveDecisionBodySchema))
def approve(body: dict[str, Any], plan_id: str, number: int) -> PlanReport:
    """Approve a reconciled wave, so that the next one can start

    Approval is possible whatever reconciliation found. The next wave starts in its window, or within a few
    seconds if it has none. The reason is kept with the wave and in the audit.
    """
    return _act(plan_id, number, lambda *args: acts.approve_wave(*args, **body))


@blueprint.post("/<plan_id>/waves/<int:number>/stop/", endpoint="stop_wave")
@blueprint.response(200, waves.WavePlanAnswerSchema, example=_PLAN)
@answers_errors(*_WAVE_ERRORS)
@json_body(waves.WaveDecisionBodySchema(), example_of(waves.WaveDecisionBodySchema))
def stop(body: dict[str, Any], plan_id: str, number: int) -> PlanReport:
    """Stop a wave and every later one

    This is permanent: their batches are cancelled. Created accounts are kept. Pending accounts can be planned
    again.
    """
    return _act(plan_id, number, lambda *args: acts.stop_wave(*args, **body))


def _location(plan_id: UUID) -> str:
    return url_for("waves.get_plan", plan_id=plan_id)


def _act(plan_id: str, number: int, action: Callable[[Session, WavePlan, Wave], None]) -> PlanReport:
    with resources().Session.begin() as session:
        found = get_plan(session, plan_id, organisation_id=caller().organisation_id)
        action(session, found, lock_wave(session, found, number))
        report = report_plan(session, found)
    feed_batches(resources().celery, resources().Session)
    return report

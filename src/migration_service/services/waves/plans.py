"""Creating a plan: the choice of pending accounts for each wave, its preview, and the batch of each wave.

A batch is stored for each wave when the plan is created, and is paused until the wave starts. The lines of
the batch are the accounts of the wave, so workers, results and reconciliation need not know about waves.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import UUID

from psycopg.errors import LockNotAvailable
from sqlalchemy import ARRAY, BigInteger, Text, bindparam, exists, select, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service import errors
from migration_service.db.base import new_id
from migration_service.db.cancelling import allow_minutes
from migration_service.models import Wave, WavePlan
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.error_thresholds import IMPORT_THRESHOLD, fit_to_wave
from migration_service.services.batches.intake.options import INCLUDE_OLDER_VERSIONS, BatchOrder
from migration_service.services.batches.intake.quotas import BatchQuotas, lock_storing, require_room
from migration_service.services.batches.intake.spool import LINE_OVERHEAD
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.setup.suppliers import KnownSupplier, require_ongoing
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.services.waves.orders import PlanOrder, WaveOrder
from migration_service.services.waves.states import QUEUE, change_wave
from migration_service.states import BatchMode, BatchSource, ImportState, WaveState

_SEEDS = 2**31
_BEING_STORED = "Another file or wave plan of your organisation is being stored."


def plan_waves(
    session: Session,
    supplier: KnownSupplier,
    order: PlanOrder,
    quotas: BatchQuotas | None = None,
    *,
    on_accepted: Callable[[UUID], object] = lambda _plan_id: None,
) -> WavePlan:
    """Store a plan with its waves and their batches. The first wave then waits for its window.

    `quotas` are those of the organisation, and None for operators. `on_accepted` is told the id before
    accounts are drawn, once nothing can be wrong with the order any more. Raise WavePlanOpenError if the
    supplier already has an open plan, RequestFailedValidationError if a wave gets no account, and the errors
    of `start_batch` and `require_room`.
    """
    require_ongoing(supplier.status)
    # Of simultaneous plans of a supplier, the others wait here for the first one, and find it.
    plan = _insert_plan(session, supplier, order)
    if quotas and not lock_storing(session, supplier.organisation_id):
        raise errors.TooManyUploadsError(_BEING_STORED)
    sizes = _divide(session, supplier.id, order).sizes
    if quotas:
        before_the_last = sum(sizes[:-1]) * LINE_OVERHEAD
        require_room(session, supplier.organisation_id, quotas, before_the_last, batches=len(sizes))
    on_accepted(plan.id)
    # Drawing from a million payloads takes some minutes.
    allow_minutes(session, "1h")
    chosen, left = _choose_accounts(session, supplier.id, order, plan.seed)
    for number, (wave, choice) in enumerate(zip(order.waves, chosen, strict=True), start=1):
        batch_id = start_batch(session, supplier, _order_batch(order, wave, number, choice.process_ids))
        own = Wave(plan_id=plan.id, number=number, name=wave.name, batch_id=batch_id, strata=choice.strata)
        own.state, own.continue_if_clean = WaveState.PLANNED, wave.continue_if_clean
        own.time_window = wave.window.to_dict() if wave.window else None
        session.add(own)
    plan.older_versions = 0 if order.include_older_versions else count_pending(session, supplier.id, _OLDER)
    plan.unplanned = left + plan.older_versions
    change_wave(session, plan, session.get_one(Wave, (plan.id, 1)), QUEUE)
    return plan


def _insert_plan(session: Session, supplier: KnownSupplier, order: PlanOrder) -> WavePlan:
    team_id = get_operations_team_id(session, supplier.organisation_id, order.operations_team_name)
    plan = WavePlan(
        id=new_id(),
        organisation_id=supplier.organisation_id,
        import_supplier_id=supplier.id,
        name=order.name,
        operations_team_id=team_id,
        seed=secrets.randbelow(_SEEDS) if order.seed is None else order.seed,
        continue_if_clean=order.continue_if_clean,
    )
    try:
        with session.begin_nested():
            session.add(plan)
    except OperationalError as error:
        if isinstance(error.orig, LockNotAvailable):  # a plan of the supplier is still being made
            raise errors.TooManyUploadsError(_BEING_STORED) from error
        raise
    except IntegrityError as error:
        if getattr(getattr(error.orig, "diag", None), "constraint_name", "") != "uq_wave_plan_open":
            raise
        raise errors.WavePlanOpenError from error
    details = {"import_supplier": supplier.code, "waves": len(order.waves), "seed": plan.seed}
    action, owner = AuditAction.WAVE_PLAN_CREATED, supplier.organisation_id
    record(session, action, "wave_plan", plan.id, organisation_id=owner, details=details)
    return plan


def _order_batch(order: PlanOrder, wave: WaveOrder, number: int, process_ids: Sequence[int]) -> BatchOrder:
    return BatchOrder(
        mode=BatchMode.IMPORT,
        source=BatchSource.PENDING,
        operations_team_name=order.operations_team_name,
        api_key_id=order.api_key_id,
        name=wave.name or f"Wave {number}",
        error_threshold=fit_to_wave(wave.error_threshold or IMPORT_THRESHOLD, len(process_ids)),
        options={INCLUDE_OLDER_VERSIONS: True} if order.include_older_versions else {},
        wave_processes=process_ids,
        lines_per_minute=wave.lines_per_minute,
    )


@dataclass(slots=True)
class _Choice:
    process_ids: Sequence[int]
    #: The result of a random draw.
    strata: list[dict[str, Any]] | None = None


def _choose_accounts(
    session: Session, supplier_id: int, order: PlanOrder, seed: int
) -> tuple[list[_Choice], int]:
    """Choose the accounts of each wave. Return these, and the number of accounts that are in no wave.

    Lists come first, then the draw, then the other waves in order.
    """
    waves = order.waves
    listed = _find_listed(session, supplier_id, order)
    taken = [process_id for ids in listed.values() for process_id in ids]
    values = {"import_supplier_id": supplier_id, "include": order.include_older_versions, "taken": taken}
    chosen = {index: _Choice(ids) for index, ids in listed.items()}
    for index, wave in enumerate(waves):
        if wave.sample is not None:
            rows = session.execute(_DRAW, values | {"size": wave.sample, "seed": str(seed)}).all()
            chosen[index] = _Choice([row.id for row in rows], _count_strata(rows))
            taken += chosen[index].process_ids
    left = iter(session.scalars(_LEFT, values | {"taken": taken}).all())
    for index, wave in enumerate(waves):
        if index not in chosen:
            chosen[index] = _Choice(list(left if wave.size is None else islice(left, wave.size)))
    choices = [chosen[index] for index in range(len(waves))]
    _require_accounts([len(choice.process_ids) for choice in choices])
    return choices, sum(1 for _ in left)


def _require_accounts(sizes: Sequence[int]) -> None:
    """Raise RequestFailedValidationError if a wave gets no account."""
    detail = "No pending account is left for this wave."
    faults = [
        errors.ErrorItem("empty", detail, f"waves.{index}") for index, size in enumerate(sizes) if not size
    ]
    if faults:
        raise errors.RequestFailedValidationError(errors=faults)


def _find_listed(session: Session, supplier_id: int, order: PlanOrder) -> dict[int, list[int]]:
    """Return the import processes of each list of accounts, by index of the wave.

    Raise RequestFailedValidationError if an account is not pending, is in two lists, or is an older version
    that the order does not include.
    """
    listed: dict[int, list[int]] = {}
    seen: set[str] = set()
    faults = []
    for index, wave in enumerate(order.waves):
        if wave.accounts is None:
            continue
        values = {"import_supplier_id": supplier_id, "numbers": list(wave.accounts)}
        found = {row.external_account_number: row for row in session.execute(_LISTED, values)}
        for place, number in enumerate(wave.accounts):
            attr = f"waves.{index}.accounts.{place}"
            if number not in found or number in seen:
                fault = "is listed before" if number in seen else "is not pending"
                faults.append(errors.ErrorItem("invalid", f"Account {number!r} {fault}.", attr))
            elif (refused_at := found[number].refused_at) and not order.include_older_versions:
                error = errors.NewerVersionRefusedError.at(write_moment(refused_at))
                faults.append(errors.ErrorItem(error.code, error.detail, attr))
            seen.add(number)
        listed[index] = [row.id for row in found.values()]
    if faults:
        raise errors.RequestFailedValidationError(errors=faults)
    return listed


def _count_strata(rows: Sequence[Any]) -> list[dict[str, Any]]:
    strata: dict[str, dict[str, Any]] = {}
    for row in rows:
        stratum = strata.setdefault(row.stratum, {"stratum": row.stratum, "pending": row.size, "drawn": 0})
        stratum["drawn"] += 1
    return sorted(strata.values(), key=lambda stratum: (-stratum["pending"], stratum["stratum"]))


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """The numbers of accounts in each wave of a plan, in none, and of these left out as older versions."""

    sizes: Sequence[int]
    unplanned: int
    older_versions: int


def count_pending(session: Session, import_supplier_id: int, condition: str = "") -> int:
    """Return the number of pending accounts of a supplier, or of those that also meet this SQL condition."""
    counted = text(f"SELECT count(*) {_PENDING} {condition}")
    return session.scalar(counted, {"import_supplier_id": import_supplier_id}) or 0


def preview_plan(session: Session, supplier: KnownSupplier, order: PlanOrder) -> PlanPreview:
    """Return the number of accounts that each wave of a plan would get.

    Raise the errors of `plan_waves` about the supplier and the waves.
    """
    require_ongoing(supplier.status)
    is_open = exists().where(WavePlan.import_supplier_id == supplier.id, WavePlan.finished_at.is_(None))
    if session.scalar(select(is_open)):
        raise errors.WavePlanOpenError
    return _divide(session, supplier.id, order)


def _divide(session: Session, supplier_id: int, order: PlanOrder) -> PlanPreview:
    listed = _find_listed(session, supplier_id, order)
    older = 0 if order.include_older_versions else count_pending(session, supplier_id, _OLDER)
    left = count_pending(session, supplier_id) - older - sum(map(len, listed.values()))
    sizes = {index: len(ids) for index, ids in listed.items()}
    for index in sorted(set(range(len(order.waves))) - set(listed)):
        wave = order.waves[index]
        sizes[index] = min(left, wave.sample or wave.size or left)
        left -= sizes[index]
    in_order = [sizes[index] for index in range(len(order.waves))]
    _require_accounts(in_order)
    return PlanPreview(in_order, left + older, older)


_PENDING = f"""
    FROM account_import_process AS process
    WHERE import_supplier_id = :import_supplier_id AND state = '{ImportState.PENDING}'
"""
#: A newer version of the account was refused.
_OLDER = "AND refused_at IS NOT NULL"
_OFFERED = f"{_PENDING} AND (:include OR refused_at IS NULL)"
_NOT_TAKEN = "AND NOT EXISTS (SELECT FROM unnest(CAST(:taken AS bigint[])) AS t (id) WHERE t.id = process.id)"

_LISTED = text(
    f"SELECT id, external_account_number, refused_at {_PENDING} AND external_account_number = ANY (:numbers)"
).bindparams(bindparam("numbers", type_=ARRAY(Text)))

_LEFT = text(f"SELECT id {_OFFERED} {_NOT_TAKEN} ORDER BY external_account_number").bindparams(
    bindparam("taken", type_=ARRAY(BigInteger))
)

# One account of each stratum comes first, from the largest stratum to the smallest. Then each stratum gets
# its share: the nth of m accounts comes after the fraction n/m of every other stratum. Within a stratum,
# accounts are ordered by a hash.
_DRAW = text(f"""
    WITH candidate AS (
        SELECT id, md5(:seed || ' ' || external_account_number) AS draw, concat_ws(', ',
            coalesce((SELECT string_agg(DISTINCT kind #>> '{{}}', ' and ') FROM jsonb_path_query(
                payload, '$.supply_addresses[*].meter_points[*].supply_type') AS kind), 'no supply'),
            CASE jsonb_array_length(
                jsonb_path_query_array(payload, '$.supply_addresses[*].meter_points[*]'))
                WHEN 0 THEN 'no meter point' WHEN 1 THEN '1 meter point' WHEN 2 THEN '2 meter points'
                ELSE '3 or more meter points' END,
            CASE WHEN jsonb_path_exists(payload, '$.supply_addresses[*].meter_points[*].agreements[*]')
                THEN 'with agreements' ELSE 'without agreements' END,
            CASE WHEN jsonb_path_exists(payload, '$.statements[*]')
                THEN 'with statements' ELSE 'without statements' END) AS stratum
        {_OFFERED} {_NOT_TAKEN}
    ), numbered AS (
        SELECT id, draw, stratum, row_number() OVER (PARTITION BY stratum ORDER BY draw, id) AS place,
               count(*) OVER (PARTITION BY stratum) AS size
        FROM candidate
    )
    SELECT id, stratum, size FROM numbered
    ORDER BY CASE WHEN place = 1 THEN -size ELSE 0 END, (place - 0.5) / size, draw LIMIT :size
""").bindparams(bindparam("taken", type_=ARRAY(BigInteger)))

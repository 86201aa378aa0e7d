"""The states of an account import process: the table of changes, and the only statements that make these.

Both single requests and batches change states here. A request's attempt makes its process IN_PROGRESS, a
state that is committed before the account is created. A batch creates accounts in one transaction, under the
locks of their processes, so that they change directly from PENDING to IMPORTED.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from uuid import UUID

from migration_payloads.schemas.json import encode_json
from migration_service import errors
from migration_service.db.base import literals
from migration_service.db.sql import OpenTransaction, SqlConnection
from migration_service.schemas.events import EventType
from migration_service.states import ImportState, Outcome


@dataclass(frozen=True, slots=True)
class Change:
    """A change of state: from any of `sources` to `target`."""

    sources: tuple[ImportState, ...]
    target: ImportState


#: A payload is stored. This creates the process, or replaces the payload of an existing one.
STAGE = Change((ImportState.PENDING,), ImportState.PENDING)
#: A request's attempt starts.
START = Change((ImportState.PENDING,), ImportState.IN_PROGRESS)
#: The account was created in the same transaction. The source is PENDING in a batch.
IMPORT = Change((ImportState.IN_PROGRESS, ImportState.PENDING), ImportState.IMPORTED)
#: An attempt failed, was a dry run, or was withdrawn because no worker started it in time.
RETURN = Change((ImportState.IN_PROGRESS,), ImportState.PENDING)
#: An operator excludes the account.
SKIP = Change((ImportState.PENDING,), ImportState.SKIPPED)
#: An operator includes the account again.
UNSKIP = Change((ImportState.SKIPPED,), ImportState.PENDING)
#: The account was removed in the same transaction.
REVERT = Change((ImportState.IMPORTED,), ImportState.PENDING)


class StateChangeError(Exception):
    """A process was not in the state required of the caller. The transaction must be rolled back."""


def refusal(
    state: ImportState, external_account_number: str, service_account_number: str | None
) -> errors.InvalidError | None:
    """Return the error of staging or creating an account in `state`, or None if it is PENDING."""
    match state:
        case ImportState.IMPORTED:
            return errors.AccountAlreadyImportedError(external_account_number, service_account_number or "")
        case ImportState.SKIPPED:
            return errors.AccountMarkedToSkipError()
        case ImportState.IN_PROGRESS:
            return errors.AccountImportInProgressError()
        case ImportState.PENDING:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAttempt:
    """One run of account creation that has not ended. The names are those of its columns."""

    id: UUID
    account_import_process_id: int
    operations_team_id: int
    api_key_id: int | None
    dry_run: bool
    request_id: str | None
    #: The address that the request came from.
    address: str | None


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An attempt that has ended, with its outcome."""

    #: The attempt, or a row with its columns.
    attempt: RunningAttempt
    outcome: Outcome
    #: The key of the account, if it was created.
    service_account_number: str | None = None
    #: The reason why no account was created, unless the attempt was withdrawn.
    error: errors.ServiceError | None = None

    @classmethod
    def with_error(cls, attempt: RunningAttempt, error: errors.ServiceError) -> "EndedAttempt":
        """Return an attempt that created no account. DryRunSucceededError stands for a successful dry run."""
        succeeded = isinstance(error, errors.DryRunSucceededError)
        outcome = Outcome.DRY_RUN_SUCCEEDED if succeeded else Outcome.FAILED
        return cls(attempt, outcome, error=error)


_COLUMNS = ", ".join(RunningAttempt.__slots__)
_VALUES = ", ".join(f"%({name})s" for name in RunningAttempt.__slots__)

_START = f"""
    WITH started AS (
        UPDATE account_import_process
        SET state = '{START.target}', attempt_id = %(id)s, tries = 1, runs_alone = %(dry_run)s,
            dispatched_at = CASE WHEN %(dry_run)s THEN NULL ELSE now() END
        WHERE id = %(account_import_process_id)s AND state IN ({literals(START.sources)})
        RETURNING id
    )
    INSERT INTO attempt ({_COLUMNS}) SELECT {_VALUES} FROM started
    RETURNING id"""


def start(connection: SqlConnection, attempt: RunningAttempt, *, durable: bool) -> bool:
    """Make the process IN_PROGRESS for this attempt (START). Return False if it was not PENDING.

    Unless `durable`, the commit, which has to follow soon, does not wait for the disk. A crash of PostgreSQL
    within the next second can then undo it, as if the attempt had never started. This is for requests that
    promise nothing before the worker commits the account, which makes both durable.
    """
    soon = "" if durable else ", set_config('synchronous_commit', 'off', true)"  # until the commit
    return bool(connection.execute(_START + soon, _columns(attempt)))


def has_started(connection: SqlConnection, attempt: RunningAttempt) -> bool:
    """Return whether `start` has taken effect for this attempt."""
    return bool(connection.execute("SELECT id FROM attempt WHERE id = %(id)s", {"id": attempt.id}))


# Of single requests. The lines of a batch are told by chunks, and dry runs not at all.
_TELL = f"""
    ), told AS (
        INSERT INTO event (organisation_id, import_supplier_id, type, data)
        SELECT supplier.organisation_id, supplier.id, '{EventType.ACCOUNT_CREATED}', jsonb_build_object(
            'external_account_number', external_account_number, 'service_account_number', number,
            'attempt_id', attempt)
        FROM settled JOIN import_supplier AS supplier ON supplier.id = import_supplier_id
        WHERE outcome = '{Outcome.SUCCEEDED}'
        UNION ALL
        SELECT supplier.organisation_id, supplier.id, '{EventType.ACCOUNT_FAILED}', jsonb_build_object(
            'external_account_number', external_account_number, 'attempt_id', attempt, 'code', error_code,
            'codes', (SELECT coalesce(jsonb_agg(DISTINCT error -> 'code'), '[]')
                      FROM jsonb_array_elements(errors) AS error))
        FROM settled JOIN import_supplier AS supplier ON supplier.id = import_supplier_id
        WHERE outcome = '{Outcome.FAILED}' AND NOT dry_run"""

_FAILED = literals([Outcome.FAILED, Outcome.WITHDRAWN])
_OUTCOME = "outcome, service_account_number, error_code, error_detail, errors"

# Without LIMIT, PostgreSQL would plan for ten rows whatever the number of attempts. While the tables are
# small it would then read all of account_import_process, and keep that plan as they grow.
_COMPLETE_AND = f"""
    WITH {{before}} ended AS MATERIALIZED (
        SELECT * FROM jsonb_populate_recordset(NULL::attempt, %(ended)s::jsonb) LIMIT %(count)s
    ), settled AS (
        UPDATE account_import_process AS process
        SET state = CASE ended.outcome
                WHEN '{Outcome.SUCCEEDED}' THEN '{IMPORT.target}' ELSE '{RETURN.target}' END,
            attempt_id = NULL, service_account_number = ended.service_account_number,
            has_failed = process.has_failed OR ended.outcome IN ({_FAILED}),
            account_created_at = CASE ended.outcome WHEN '{Outcome.SUCCEEDED}' THEN now() END
        FROM ended
        WHERE process.id = ended.account_import_process_id
          AND (process.state IN ({literals(RETURN.sources)}) AND process.attempt_id = ended.id
               OR process.state = '{ImportState.PENDING}' AND (ended.outcome = '{Outcome.SUCCEEDED}'
                   OR ended.outcome IN ({_FAILED}) AND NOT process.has_failed AND NOT %(started)s))
        RETURNING process.id, process.import_supplier_id, process.external_account_number,
                  ended.id AS attempt, ended.outcome, ended.dry_run, ended.error_code, ended.errors,
                  ended.service_account_number AS number
    ), recorded AS (
        INSERT INTO attempt ({_COLUMNS}, {_OUTCOME}, finished_at)
        SELECT {_COLUMNS}, {_OUTCOME}, now() FROM ended
        ON CONFLICT (id) DO UPDATE
        SET {", ".join(f"{name} = excluded.{name}" for name in _OUTCOME.split(", "))}, finished_at = now()
        WHERE attempt.outcome IS NULL
        RETURNING id
    {{tell}})
    SELECT (SELECT count(*) FROM settled WHERE %(started)s OR outcome = '{Outcome.SUCCEEDED}') AS settled,
           (SELECT count(*) FROM recorded) AS recorded
"""


@cache
def _complete(before: str, *, tells: bool) -> str:
    return _COMPLETE_AND.format(before=before and f"{before},", tell=_TELL if tells else "")


def complete(
    transaction: OpenTransaction,
    ended: Sequence[EndedAttempt],
    *,
    started: bool,
    before: str = "",
    values: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Record the outcomes of attempts, and change the states of their processes (IMPORT, RETURN).

    `started` means that `start` made the processes IN_PROGRESS for these attempts, as for requests, and that
    each account has an event. Otherwise they are PENDING, as in a batch: the attempts are only recorded now,
    and processes without an account stay PENDING. The caller holds the locks of the processes. Common table
    expressions with their values may come before, to save a round trip. Raise StateChangeError if a process
    is in any other state.
    """
    if not ended:
        return
    rows = encode_json([_columns(one.attempt) | _outcome(one) for one in ended]).decode()
    statement = _complete(before, tells=started)
    (done,) = transaction.execute(
        statement, {"ended": rows, "count": len(ended), "started": started, **values}
    )
    to_settle = sum(started or one.outcome is Outcome.SUCCEEDED for one in ended)
    if (done.settled, done.recorded) != (to_settle, len(ended)):
        found = f"{done.recorded} were recorded, and {done.settled} of {to_settle} processes changed"
        raise StateChangeError(f"{len(ended)} attempts ended: {found}.")


_CHANGE = """
    UPDATE account_import_process SET state = %(target)s
    WHERE import_supplier_id = %(import_supplier_id)s AND external_account_number = ANY(%(numbers)s)
      AND state = ANY(%(sources)s)
    RETURNING id
"""


def change(
    connection: SqlConnection, import_supplier_id: int, numbers: Sequence[str], made: Change
) -> list[int]:
    """Make the change SKIP or UNSKIP for all accounts in its source state, and return their processes."""
    values = {"import_supplier_id": import_supplier_id, "numbers": list(numbers)}
    rows = connection.execute(_CHANGE, {**values, "target": made.target, "sources": list(made.sources)})
    return [row.id for row in rows]


_REVERT = f"""
    UPDATE account_import_process
    SET state = '{REVERT.target}', service_account_number = NULL, account_created_at = NULL,
        dispatched_at = NULL, tries = 0
    WHERE id = ANY(%(process_ids)s::bigint[]) AND state IN ({literals(REVERT.sources)})
    RETURNING id
"""


def revert(transaction: OpenTransaction, process_ids: Sequence[int]) -> None:
    """Make processes PENDING again after the caller has removed their accounts in this transaction (REVERT).

    The caller holds the locks of the processes. Raise StateChangeError if one of them is not IMPORTED.
    """
    reverted = transaction.execute(_REVERT, {"process_ids": list(process_ids)})
    if len(reverted) != len(process_ids):
        raise StateChangeError(f"{len(reverted)} of {len(process_ids)} processes were {REVERT.sources[0]}.")


def _columns(attempt: RunningAttempt) -> dict[str, object]:
    return {name: getattr(attempt, name) for name in RunningAttempt.__slots__}


def _outcome(ended: EndedAttempt) -> dict[str, object]:
    error = ended.error
    return {
        "outcome": ended.outcome,
        "service_account_number": ended.service_account_number,
        "error_code": error and error.code,
        "error_detail": error and error.detail,
        "errors": error and [item.to_dict() for item in error.errors],
    }

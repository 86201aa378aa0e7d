"""The states of an account import process: the table of changes, and the only statements that make them.

Single requests and batches change states here alike. A request's attempt makes its process IN_PROGRESS, which
outlives the request's transactions. A batch creates accounts in one transaction, under the locks of their
processes, so that they go from PENDING to IMPORTED at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from migration_service.db.base import literals
from migration_service.db.statements import OpenTransaction, Statements
from migration_service.errors import DryRunSucceededError, ServiceError
from migration_service.origin import current_origin
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.schemas.json import encode_json
from migration_service.services.imports.validation import ValidatedAccount
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import ImportState, Outcome


@dataclass(frozen=True, slots=True)
class Change:
    """A change of state: from any of `sources` to `target`."""

    sources: tuple[ImportState, ...]
    target: ImportState


#: A payload is stored. Without an earlier one this makes the process; otherwise it replaces the payload.
STAGE = Change((ImportState.PENDING,), ImportState.PENDING)
#: A request's attempt begins.
BEGIN = Change((ImportState.PENDING,), ImportState.IN_PROGRESS)
#: The account was created, in the same transaction. PENDING is the source of a batch.
IMPORT = Change((ImportState.IN_PROGRESS, ImportState.PENDING), ImportState.IMPORTED)
#: An attempt failed, was a dry run, or was withdrawn because no worker took it in time.
RETURN = Change((ImportState.IN_PROGRESS,), ImportState.PENDING)
#: An operator excludes the account.
SKIP = Change((ImportState.PENDING,), ImportState.SKIPPED)
#: An operator includes the account again.
UNSKIP = Change((ImportState.SKIPPED,), ImportState.PENDING)
#: The account was removed again, in the same transaction.
REVERT = Change((ImportState.IMPORTED,), ImportState.PENDING)

#: Every possible change.
CHANGES = (STAGE, BEGIN, IMPORT, RETURN, SKIP, UNSKIP, REVERT)


class StateChangeError(Exception):
    """A process was not in the state that its caller must ensure. The transaction must be rolled back."""


@dataclass(frozen=True, slots=True)
class StagedProcess:
    """The process of an account after staging. A payload was stored only if the state is PENDING."""

    id: int
    state: ImportState
    #: Whether this was the first staging of the account.
    first: bool = False
    service_account_number: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAttempt:
    """One run of account creation that has not ended."""

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
    """How an attempt ended."""

    attempt: RunningAttempt
    outcome: Outcome
    #: Of the account, if it was created.
    service_account_number: str | None = None
    account_created_at: datetime | None = None
    #: Why there is no account, if the attempt was not withdrawn.
    error: ServiceError | None = None

    @classmethod
    def with_error(cls, attempt: RunningAttempt, error: ServiceError) -> "EndedAttempt":
        """Return an attempt that created no account. DryRunSucceededError means that it could have."""
        succeeded = isinstance(error, DryRunSucceededError)
        outcome = Outcome.DRY_RUN_SUCCEEDED if succeeded else Outcome.FAILED
        return cls(attempt, outcome, error=error)


def _stage(sent: str) -> str:
    # ORDER BY makes two transactions with the same accounts wait for each other instead of deadlocking.
    # ON CONFLICT locks the row even if the WHERE says that nothing changes. xmax is 0 in a row that an INSERT
    # made.
    return f"""
    INSERT INTO account_import_process AS process
        (import_supplier_id, external_account_number, state, payload, payload_sha256, rules_version, profile,
         warnings, staged_by_api_key_id, staged_request_id, staged_address)
    SELECT %(import_supplier_id)s::bigint, number, '{STAGE.target}', payload, sha256, %(rules_version)s,
           %(profile)s, nullif(warnings, '[]'), %(api_key_id)s::bigint, %(request_id)s, %(address)s
    FROM {sent} AS sent (number, payload, sha256, warnings)
    WHERE NOT EXISTS (SELECT FROM skip_mark WHERE skip_mark.import_supplier_id = %(import_supplier_id)s
                      AND skip_mark.external_account_number = number)
    ORDER BY number
    ON CONFLICT (import_supplier_id, external_account_number) DO UPDATE
    SET payload = excluded.payload, payload_sha256 = excluded.payload_sha256,
        rules_version = excluded.rules_version, profile = excluded.profile,
        warnings = excluded.warnings, staged_at = now(),
        staged_by_api_key_id = excluded.staged_by_api_key_id,
        staged_request_id = excluded.staged_request_id, staged_address = excluded.staged_address
    WHERE process.state IN ({literals(STAGE.sources)})
      AND (process.payload_sha256 <> excluded.payload_sha256
           OR process.rules_version <> excluded.rules_version OR process.profile <> excluded.profile)
    RETURNING id, external_account_number, xmax = 0 AS first
    """


# Binary parameters (%b): in an array in text form the driver would have to escape every quotation mark of the
# payloads, which takes twenty times as long.
_STAGE_MANY = _stage(
    "unnest(%(numbers)s::text[], %(payloads)b::jsonb[], %(hashes)b::bytea[], %(warnings)b::jsonb[])"
)
# A request stages one account. Without arrays that is cheaper for the driver and for PostgreSQL, which
# would plan for ten rows.
_STAGE_ONE = _stage(
    "(VALUES (%(numbers)s::text, %(payloads)b::jsonb, %(hashes)b::bytea, %(warnings)b::jsonb))"
)

# A mark to skip counts for an account without a process, and for one that was staged at the same moment.
_FIND = f"""
    SELECT external_account_number, coalesce(process.id, 0) AS id,
           CASE WHEN mark.created_at IS NOT NULL AND coalesce(process.state, '{ImportState.PENDING}')
                     = '{ImportState.PENDING}' THEN '{SKIP.target}' ELSE process.state END AS state,
           process.service_account_number
    FROM (SELECT * FROM account_import_process
          WHERE import_supplier_id = %(import_supplier_id)s
            AND external_account_number = ANY(%(numbers)s)) process
    FULL JOIN (SELECT * FROM skip_mark
               WHERE import_supplier_id = %(import_supplier_id)s
                 AND external_account_number = ANY(%(numbers)s)) mark
    USING (external_account_number)
"""


def stage(
    statements: Statements,
    supplier: KnownSupplier,
    accounts: Sequence[ValidatedAccount],
    *,
    profile: str | None = None,
) -> list[StagedProcess]:
    """Store valid payloads of different accounts (STAGE). Return the processes in the order of `accounts`.

    The same payload again changes nothing. If an account can no longer be staged, nothing changes either, and
    the state of its process says why. `profile` is the one that the payloads passed, or None for the
    supplier's own. Within an OpenTransaction the processes are locked.
    """
    numbers = [account.data["external_account_number"] for account in accounts]
    sent: dict[str, list[object]] = {
        "numbers": numbers,
        "payloads": [Jsonb(account.json, dumps=bytes) for account in accounts],
        "hashes": [account.sha256 for account in accounts],
        "warnings": [Jsonb([item.to_dict() for item in account.warnings]) for account in accounts],
    }
    alone = len(accounts) == 1
    rows = statements.execute(
        _STAGE_ONE if alone else _STAGE_MANY,
        {
            "import_supplier_id": supplier.id,
            "rules_version": RULES_VERSION,
            "profile": profile or supplier.profile,
            **({name: values[0] for name, values in sent.items()} if alone else sent),
            **current_origin().trace(),
        },
    )
    found = {row.external_account_number: StagedProcess(row.id, STAGE.target, row.first) for row in rows}
    if unchanged := [number for number in numbers if number not in found]:
        found |= find(statements, supplier.id, unchanged)
    return [found[number] for number in numbers]


def find(statements: Statements, import_supplier_id: int, numbers: Sequence[str]) -> dict[str, StagedProcess]:
    """Return the processes of these accounts by number. A mark to skip without one has the id 0."""
    rows = statements.execute(_FIND, {"import_supplier_id": import_supplier_id, "numbers": list(numbers)})
    return {
        row.external_account_number: StagedProcess(
            row.id, ImportState(row.state), False, row.service_account_number
        )
        for row in rows
    }


_BEGIN = f"""
    WITH begun AS (
        UPDATE account_import_process
        SET state = '{BEGIN.target}', attempt_id = %(id)s, dispatched_at = now(), tries = 1
        WHERE id = %(account_import_process_id)s AND state IN ({literals(BEGIN.sources)})
        RETURNING id
    )
    INSERT INTO attempt
        (id, account_import_process_id, operations_team_id, api_key_id, dry_run, request_id, address)
    SELECT %(id)s, id, %(operations_team_id)s, %(api_key_id)s, %(dry_run)s, %(request_id)s, %(address)s
    FROM begun
    RETURNING id
"""
# The setting holds until the commit, which is that of this statement.
_BEGIN_SOON = f"{_BEGIN}, set_config('synchronous_commit', 'off', true)"


def begin(statements: Statements, attempt: RunningAttempt, *, durable: bool) -> bool:
    """Make the process IN_PROGRESS for this attempt (BEGIN). Return False if it was not PENDING.

    Unless it is to be `durable`, the commit does not wait for the disk. A crash of PostgreSQL may then undo
    it within the next second, as if the attempt had never begun. The commit of a worker that creates its
    account makes both durable, because the log is written in order. So this is for a request that promises
    nothing before that commit. Call it with single statements only.
    """
    return bool(statements.execute(_BEGIN if durable else _BEGIN_SOON, _columns(attempt)))


# LIMIT: without it PostgreSQL would plan for ten rows, whatever the number of attempts. As long as the tables
# are small it would then read all of account_import_process, and keep that plan while they grow.
_COMPLETE = f"""
    WITH ended AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(%(ended)s::jsonb) AS ended (
            id uuid, account_import_process_id bigint, operations_team_id bigint, api_key_id bigint,
            dry_run boolean, request_id text, address text, outcome text,
            service_account_number text, account_created_at timestamptz,
            error_code text, error_detail text, errors jsonb)
        LIMIT %(count)s
    ), settled AS (
        UPDATE account_import_process AS process
        SET state = CASE ended.outcome
                WHEN '{Outcome.SUCCEEDED}' THEN '{IMPORT.target}' ELSE '{RETURN.target}' END,
            attempt_id = NULL, service_account_number = ended.service_account_number,
            account_created_at = ended.account_created_at
        FROM ended
        WHERE process.id = ended.account_import_process_id
          AND (process.state IN ({literals(RETURN.sources)}) AND process.attempt_id = ended.id
               OR process.state = '{ImportState.PENDING}' AND ended.outcome = '{Outcome.SUCCEEDED}')
        RETURNING process.id
    ), recorded AS (
        INSERT INTO attempt (id, account_import_process_id, operations_team_id, api_key_id, dry_run,
            request_id, address, finished_at, outcome, service_account_number,
            error_code, error_detail, errors)
        SELECT id, account_import_process_id, operations_team_id, api_key_id, dry_run,
            request_id, address, now(), outcome, service_account_number, error_code, error_detail,
            errors
        FROM ended
        ON CONFLICT (id) DO UPDATE
        SET finished_at = excluded.finished_at, outcome = excluded.outcome,
            service_account_number = excluded.service_account_number,
            error_code = excluded.error_code, error_detail = excluded.error_detail, errors = excluded.errors
        WHERE attempt.outcome IS NULL
        RETURNING id
    )
    SELECT (SELECT count(*) FROM settled) AS settled, (SELECT count(*) FROM recorded) AS recorded
"""


def complete(transaction: OpenTransaction, ended: Sequence[EndedAttempt], *, begun: bool) -> None:
    """Record how attempts ended, and change the states of their processes (IMPORT, RETURN).

    `begun` says that `begin` made the processes IN_PROGRESS for these attempts, as requests do. Otherwise
    they are PENDING, as in a batch: the attempts are recorded only now, and processes without an account
    stay as they are. The caller holds the locks of the processes. Raise StateChangeError if one of them is
    not in such a state.
    """
    if not ended:
        return
    rows = encode_json([_columns(one.attempt) | _outcome(one) for one in ended]).decode()
    (done,) = transaction.execute(_COMPLETE, {"ended": rows, "count": len(ended)})
    to_settle = sum(begun or one.outcome is Outcome.SUCCEEDED for one in ended)
    if (done.settled, done.recorded) != (to_settle, len(ended)):
        raise StateChangeError(
            f"{len(ended)} attempts ended. {done.recorded} were recorded, and {done.settled} of {to_settle} "
            "processes were in the state that is required."
        )


_CHANGE = """
    UPDATE account_import_process SET state = %(target)s
    WHERE import_supplier_id = %(import_supplier_id)s AND external_account_number = ANY(%(numbers)s)
      AND state = ANY(%(sources)s)
    RETURNING id
"""


def change(
    statements: Statements, import_supplier_id: int, numbers: Sequence[str], made: Change
) -> list[int]:
    """Make the change SKIP or UNSKIP of all accounts that are in its source, and return their processes."""
    values = {"import_supplier_id": import_supplier_id, "numbers": list(numbers)}
    rows = statements.execute(_CHANGE, {**values, "target": made.target, "sources": list(made.sources)})
    return [row.id for row in rows]


_REVERT = f"""
    UPDATE account_import_process
    SET state = '{REVERT.target}', service_account_number = NULL, account_created_at = NULL,
        dispatched_at = NULL, tries = 0
    WHERE id = ANY(%(process_ids)s::bigint[]) AND state IN ({literals(REVERT.sources)})
    RETURNING id
"""


def revert(transaction: OpenTransaction, process_ids: Sequence[int]) -> None:
    """Make processes PENDING again whose accounts the caller has removed in this transaction (REVERT).

    Their attempts stay as they are. The caller holds the locks of the processes. Raise StateChangeError if
    one of them is not IMPORTED.
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
        "account_created_at": ended.account_created_at,
        "error_code": error and error.code,
        "error_detail": error and error.detail,
        "errors": error and [item.to_dict() for item in error.errors],
    }

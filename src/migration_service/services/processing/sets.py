"""Sets: the attempts that wait for a worker, whose accounts are created in one statement and one commit.

Creating thirty accounts together costs half of creating them one by one, and a request under load waits for
one message instead of its own. A set has ordinary attempts only: at their first try, of payloads that have
passed the rules in force, and no dry runs. Every other attempt runs alone (`attempts.take_alone`), so that
an account that the database refuses, or that ends its worker, harms no other one more than once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from migration_service.db.statements import OpenTransaction
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.services.imports import states
from migration_service.services.imports.states import EndedAttempt, RunningAttempt
from migration_service.services.processing.attempts import running_attempt, with_account
from migration_service.services.processing.creation import CreationJob, create_accounts
from migration_service.services.processing.customer_emails import record_customer_emails
from migration_service.states import ImportState

#: The most attempts of a set. More save little per account, and let the first of them wait for the last.
MOST_IN_SET = 32


@dataclass(frozen=True, slots=True)
class WaitingAttempt:
    """An attempt that no worker has taken. Its process is locked until the transaction ends."""

    attempt: RunningAttempt
    #: Whether the payload passed the rules and the profile in force. Otherwise it is validated again, alone.
    is_valid: bool
    sends_customer_emails: bool


# With what `creation.KEEP_THE_PLAN` does, to save its round trip. `turn` is the place of an attempt among
# those of its organisation, so that one with many does not fill the set. The limit counts the rows that
# could be locked.
_TAKE = f"""
    WITH waiting AS MATERIALIZED (
        SELECT process.id, row_number() OVER (
            PARTITION BY supplier.organisation_id ORDER BY process.dispatched_at) AS turn
        FROM account_import_process process
        JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
        WHERE process.state = '{ImportState.IN_PROGRESS}' AND NOT process.runs_alone)
    SELECT attempt.id, attempt.account_import_process_id, attempt.operations_team_id, attempt.api_key_id,
           attempt.dry_run, attempt.request_id, attempt.address,
           process.rules_version = %(rules_version)s AND process.profile = supplier.profile AS is_valid,
           supplier.sends_customer_emails,
           set_config('plan_cache_mode', 'force_generic_plan', true)
    FROM waiting
    JOIN account_import_process process ON process.id = waiting.id
    JOIN attempt ON attempt.id = process.attempt_id AND NOT attempt.dry_run
    JOIN import_supplier supplier ON supplier.id = process.import_supplier_id
    WHERE process.state = '{ImportState.IN_PROGRESS}' AND NOT process.runs_alone
    ORDER BY waiting.turn, process.dispatched_at
    LIMIT %(most)s
    FOR UPDATE OF process SKIP LOCKED
"""


def take_set(transaction: OpenTransaction) -> list[WaitingAttempt]:
    """Lock up to MOST_IN_SET attempts that wait, and return them.

    Organisations take turns, and the oldest attempts of each come first.
    """
    rows = transaction.lock(_TAKE, {"rules_version": RULES_VERSION, "most": MOST_IN_SET})
    return [WaitingAttempt(running_attempt(row), row.is_valid, row.sends_customer_emails) for row in rows]


def create_set(transaction: OpenTransaction, waiting: Sequence[WaitingAttempt]) -> list[EndedAttempt]:
    """Create the accounts of attempts that `take_set` returned, all or none, and record the outcomes.

    If the database raises an error, the caller must roll back.
    """
    if not waiting:
        return []
    attempts = {it.attempt.account_import_process_id: it.attempt for it in waiting}
    jobs = [CreationJob(id_, attempt.operations_team_id) for id_, attempt in attempts.items()]
    created = create_accounts(transaction, jobs)
    ended = [with_account(attempts[account.account_import_process_id], account) for account in created]
    states.complete(transaction, ended, begun=True)
    if told := [it.attempt.account_import_process_id for it in waiting if it.sends_customer_emails]:
        record_customer_emails(transaction, told)
    return ended

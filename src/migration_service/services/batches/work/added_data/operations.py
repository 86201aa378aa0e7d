"""The kinds of added data, each with the schema, rules and function of its single endpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy.orm import Session

from migration_service.errors import ServiceError
from migration_service.schemas import added_data
from migration_service.services.accounts.added_data import Added, Addition, Check
from migration_service.services.accounts.notes import (
    NoteStatus,
    add_notes_to_accounts,
    check_notes,
    hash_sameness,
    sorted_paths,
)
from migration_service.services.accounts.payment_instructions import check_instruction
from migration_service.services.accounts.statements import add_statements_to_accounts, check_statements
from migration_service.services.accounts.transaction_checks import check_transactions
from migration_service.services.accounts.transactions import TransactionStatus, add_transactions_to_accounts
from migration_service.services.batches.work.added_data.instructions import InstructionKey, add_instructions
from migration_service.services.batches.work.lines import ChunkJob
from migration_service.states import BatchKind


@dataclass(frozen=True, slots=True)
class Operation:
    """The addition of one kind of data."""

    schema: added_data.AddedDataSchema
    #: The member of a body that contains the items.
    member: str
    #: Returns the key that identifies equal items.
    identify: Callable[[dict[str, Any]], Any]
    #: Returns the errors of a body that do not depend on its account.
    check: Check
    #: Adds to locked accounts. Returns a result or an error for each, or None to defer it.
    add: Callable[[Session, Sequence[Addition], ChunkJob], Sequence[Added | ServiceError | None]]
    #: Returns the items of a body with what reconciliation compares: their identity, and their amount.
    understand: Callable[[dict[str, Any]], list[dict[str, Any]]]
    #: Whether `add` also accepts bodies with errors, to find further errors.
    adds_faulty: bool = False


def _add_notes(session: Session, additions: Sequence[Addition], _job: ChunkJob) -> list[Added | ServiceError]:
    return [
        Added(
            [note.status is NoteStatus.CREATED for note in notes],
            [warning for note in notes for warning in note.warnings],
        )
        for notes in add_notes_to_accounts(session, [(it.account, it.data["notes"]) for it in additions])
    ]


def _add_transactions(
    session: Session, additions: Sequence[Addition], job: ChunkJob
) -> list[Added | ServiceError]:
    added = add_transactions_to_accounts(
        session,
        additions,
        check_previously_added=job.options.get("check_previously_added", True),
        force_add_to_current_statement=job.options.get("force_add_to_current_statement", True),
    )
    return [
        it
        if isinstance(it, ServiceError)
        else Added(
            [one.status is TransactionStatus.ADDED for one in it],
            [warning for one in it for warning in one.warnings],
        )
        for it in added
    ]


def _add_instructions(
    session: Session, additions: Sequence[Addition], job: ChunkJob
) -> list[Added | ServiceError | None]:
    return [
        it if it is None or isinstance(it, ServiceError) else Added([it])
        for it in add_instructions(session, additions, job.answers)
    ]


def _understand_notes(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "same": hash_sameness(note).hex(),
            "paths": None if note.get("body") else sorted_paths(note),
            "created_at": note.get("created_at"),
        }
        for note in body["notes"]
    ]


def _understand(member: str, *names: str) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    return lambda body: [{name: item[name] for name in names} for item in body[member]]


def _understand_instruction(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: body[name] for name in ("vendor", "reference", "type")}]


OPERATIONS = {
    BatchKind.NOTES: Operation(
        added_data.NotesRequestSchema(), "notes", hash_sameness, check_notes, _add_notes, _understand_notes
    ),
    BatchKind.TRANSACTIONS: Operation(
        added_data.TransactionsRequestSchema(),
        "transactions",
        itemgetter("transaction_id"),
        check_transactions,
        _add_transactions,
        _understand("transactions", "transaction_id", "type", "amount"),
        adds_faulty=True,
    ),
    BatchKind.STATEMENTS: Operation(
        added_data.StatementsRequestSchema(),
        "statements",
        itemgetter("statement_id"),
        check_statements,
        lambda session, additions, _job: add_statements_to_accounts(session, additions),
        _understand("statements", "statement_id", "gross_amount"),
    ),
    BatchKind.PAYMENT_INSTRUCTIONS: Operation(
        added_data.PaymentInstructionRequestSchema(),
        "reference",
        InstructionKey.of,
        check_instruction,
        _add_instructions,
        _understand_instruction,
    ),
}

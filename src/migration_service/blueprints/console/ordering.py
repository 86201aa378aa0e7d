"""The choices for a batch that is started in the console."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.blueprints.console.languages import mark, mark_plural
from migration_service.models import Batch
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.setup.teams import list_operations_teams
from migration_service.states import BatchKind, BatchMode


@dataclass(frozen=True, slots=True)
class Step:
    """A mode, in words for the person who chooses it."""

    title: str
    #: What is done with one line, and with several lines.
    sentences: tuple[str, str]


#: The steps in their order.
STEPS = {
    BatchMode.VALIDATE: Step(
        mark("Check"),
        mark_plural(
            "%(num)s line is checked. Nothing is stored.", "%(num)s lines are checked. Nothing is stored."
        ),
    ),
    BatchMode.STAGE: Step(
        mark("Stage"),
        mark_plural(
            "%(num)s line is checked and stored. No account is created.",
            "%(num)s lines are checked and stored. No account is created.",
        ),
    ),
    BatchMode.DRY_RUN: Step(
        mark("Rehearse"),
        mark_plural(
            "%(num)s line is imported and rolled back: nothing stays, and every error shows.",
            "%(num)s lines are imported and rolled back: nothing stays, and every error shows.",
        ),
    ),
    BatchMode.IMPORT: Step(
        mark("Import"),
        mark_plural(
            "%(num)s line is imported: its account is created, unless the line has an error.",
            "%(num)s lines are imported: their accounts are created, unless a line has an error.",
        ),
    ),
}

#: The steps for lines that add data to accounts.
_ADDING = {
    BatchMode.DRY_RUN: mark_plural(
        "%(num)s line is added and rolled back: nothing stays, and every error shows.",
        "%(num)s lines are added and rolled back: nothing stays, and every error shows.",
    ),
    BatchMode.IMPORT: mark_plural(
        "%(num)s line is added to its account, unless it has an error.",
        "%(num)s lines are added to their accounts, unless a line has an error.",
    ),
}

#: The kinds, in words for the person who chooses one.
KINDS = {
    BatchKind.ACCOUNTS: mark("Accounts"),
    BatchKind.NOTES: mark("Notes"),
    BatchKind.TRANSACTIONS: mark("Transactions"),
    BatchKind.STATEMENTS: mark("Statements"),
    BatchKind.PAYMENT_INSTRUCTIONS: mark("Payment instructions"),
}


def sentences_of(mode: BatchMode, kind: BatchKind) -> tuple[str, str]:
    """Return what a step does with one line of this kind, and with several."""
    return _ADDING.get(mode, STEPS[mode].sentences) if kind.is_added_data else STEPS[mode].sentences


def team_choices(session: Session, organisation_id: int, import_supplier_id: int) -> list[str]:
    """Return the names of the teams that an organisation may name, first that of the last batch."""
    teams = [
        it for it, _owner in list_operations_teams(session) if it.organisation_id in (None, organisation_id)
    ]
    used = (Batch.import_supplier_id == import_supplier_id, Batch.operations_team_id.is_not(None))
    last = session.scalar(select(Batch.operations_team_id).where(*used).order_by(Batch.id.desc()).limit(1))
    return list(dict.fromkeys(it.name for it in sorted(teams, key=lambda it: it.id != last)))


def order_batch(
    mode: BatchMode, kind: BatchKind, team: str | None, *, token: str, **others: Any
) -> BatchOrder:
    """Return the order of a form, with `others` of its members.

    The token of the form ensures that a form sent twice starts one batch.
    """
    named = team if mode.creates and not kind.is_added_data else None
    return BatchOrder(
        mode=mode, kind=kind, operations_team_name=named, idempotency_key=f"console {token}", **others
    )

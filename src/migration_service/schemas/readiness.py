"""The query string, body and responses of the checks before a wave and before go-live."""

from typing import Any

from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_payloads.schemas.fields import Choice, Identifier
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by
from migration_service.states import CheckResult, ReadinessCheck, ReadyFor

_REASON = "The backup of tonight runs before the window opens"
_CHECK: dict[str, Any] = {
    "check": "backup_recent",
    "result": "WARNING",
    "detail": "The last backup is of 2026-02-27T03:00:00Z.",
    "remedy": "Take another one, and run migration-service backups taken.",
    "accepted_by": "Grace",
    "accepted_at": "2026-03-01T10:15:00Z",
    "accepted_because": _REASON,
}


def _ready_for() -> Choice:
    about = "For what. By default for the next wave if one is planned, and otherwise for go-live."
    return Choice(ReadyFor, about, "next_wave")


class ReadinessArgumentsSchema(Fields):
    """The query string of the checks."""

    ready_for = _ready_for()


class AcceptanceBodySchema(CommandFields):
    """The body for accepting a warning."""

    check = Choice(ReadinessCheck, "The check whose warning is accepted.", "backup_recent", required=True)
    reason = Identifier("The reason. It is kept: no personal data.", _REASON, required=True, max_length=1_000)
    by = decided_by()
    ready_for = _ready_for()


class CheckAnswerSchema(AnswerSchema):
    """What a check found."""

    check = answers.String("The check.", _CHECK["check"], words=ReadinessCheck)
    result = answers.String("Its result.", _CHECK["result"], words=CheckResult)
    detail = answers.String("What it found.", _CHECK["detail"])
    remedy = answers.String("What to do. Empty if it has passed.", _CHECK["remedy"])
    accepted_by = answers.String("Who accepted the warning, or null.", _CHECK["accepted_by"], allow_none=True)
    accepted_at = answers.Moment("When, in UTC.", _CHECK["accepted_at"], allow_none=True)
    accepted_because = answers.String("Why.", _REASON, allow_none=True)


class ReadinessAnswerSchema(AnswerSchema):
    """Whether a supplier is ready."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    ready_for = answers.String("For what.", "next_wave", words=ReadyFor)
    wave_number = answers.Integer(
        "The next wave of its plan. Null before go-live, or if none is planned.", 2, allow_none=True
    )
    ready = answers.Boolean("Whether nothing has failed, and every warning was accepted.", True)
    checks = answers.List(CheckAnswerSchema, "The checks.", [_CHECK])

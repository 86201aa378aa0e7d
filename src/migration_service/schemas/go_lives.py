"""The bodies, query strings and responses of the endpoints for go-live."""

from typing import Any

from marshmallow import ValidationError, validates_schema

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, Fields
from migration_payloads.schemas.messages import Message
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by
from migration_service.schemas.paging import Cursor, page_limit
from migration_service.schemas.undo import UndoTargetSchema
from migration_service.states import GoLiveState

_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_PLAN_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b12"
_GO_LIVE_ID = "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a91"
_MOMENT = "2027-03-01T06:00:00Z"


class GoLiveTargetSchema(UndoTargetSchema):
    """The accounts that go live: those of a batch or a wave, accounts by number, or all of the supplier."""

    at = fields.UtcMoment("The moment, if it is not now. Until it comes, it can be changed.", _MOMENT)

    @validates_schema(skip_on_field_errors=True)
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse more than one of account numbers, a batch and a wave, and an empty list."""
        names = ("external_account_numbers", "batch", "wave")
        if sum(name in data for name in names) > 1 or data.get("external_account_numbers") == []:
            message = "Expected at most one of external_account_numbers, batch and wave, and no empty list."
            raise ValidationError(Message(message, "invalid"), "external_account_numbers")


class GoLiveBodySchema(GoLiveTargetSchema):
    """The body for a go-live."""

    by = decided_by()


class GoLiveListArgumentsSchema(Fields):
    """The query string of the list of go-lives."""

    import_supplier = fields.Scope("Only go-lives of this import supplier.", "DEMO_SUPPLIER")
    limit = page_limit("go-lives")
    cursor = Cursor(_GO_LIVE_ID, max_length=128)


class _ScopeSchema(AnswerSchema):
    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    batch_id = answers.UUID(
        "The batch, or null for numbers or the whole supplier.", _BATCH_ID, allow_none=True
    )
    plan_id = answers.UUID("The plan, or null if the batch is not a wave.", _PLAN_ID, allow_none=True)
    wave_number = answers.Integer("The number of that wave in its plan, or null.", 1, allow_none=True)
    live_at = answers.Moment("The moment, in UTC.", _MOMENT)


class GoLivePreviewAnswerSchema(_ScopeSchema):
    """The preview of a go-live."""

    before = answers.Moment("The planned moment that it replaces, in UTC.", None, allow_none=True)
    accounts = answers.Integer("Accounts that go live, and can then never be undone.", 1_000)
    already_live = answers.Integer("Accounts that have gone live already.", 0)
    emails = answers.Integer("Held e-mails to customers that are then sent.", 1_192)
    not_ready = answers.List(answers.String, "Why it is not allowed yet. Empty if it is.", [])


class GoLiveAnswerSchema(_ScopeSchema):
    """A go-live."""

    go_live_id = answers.UUID("The id of the go-live.", _GO_LIVE_ID)
    state = answers.String(
        "PENDING until its moment has come and every account is marked.", "COMPLETED", words=GoLiveState
    )
    decided_by = answers.String("Who decided.", "Grace", allow_none=True)
    accounts = answers.Integer("The number of accounts that have gone live.", 1_000)
    emails = answers.Integer("The number of held e-mails to customers that were released with them.", 1_192)
    receipt = answers.Dict(
        "The receipt that it relies on. Null for named accounts, or if none was asked for.",
        {},
        allow_none=True,
    )
    created_at = answers.Moment("When it was decided, in UTC.", "2027-02-26T15:00:00Z")
    finished_at = answers.Moment("When it ended, in UTC.", _MOMENT, allow_none=True)

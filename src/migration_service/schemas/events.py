"""The catalogue of events: for each type its meaning and its data, with an example.

docs/suppliers/events.md, the feed and the `webhooks` of the interface description are generated from it.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from marshmallow import ValidationError, missing

from migration_payloads.schemas.base import AnswerSchema, Fields, unknown_word
from migration_payloads.schemas.fields import Identifier, Scope
from migration_payloads.schemas.messages import Message
from migration_service import states
from migration_service.schemas import answers
from migration_service.schemas.paging import PageSize
from migration_service.schemas.requests import ErrorBodySchema

_OFF_REASONS = [it.value for it in states.EndpointOff if it is not states.EndpointOff.PERSON]
_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_MOMENT = "2026-03-01T10:15:00Z"
_NUMBER = "The account's number in the supplier's system."
_SERVICE_NUMBER = "The number of the created account."
#: A position in the feed, as in `cursor`.
CURSOR = "6b1f4c0a9d3e7258-1-0-2f1a-019a9c1e7b527c7e8a3f0d7f0f6f2b11-5d41402abc4b2a76"


class EventType(StrEnum):
    """The types of events. They are never renamed."""

    ACCOUNT_CREATED = "account.created"
    ACCOUNT_FAILED = "account.failed"
    ACCOUNT_WENT_LIVE = "account.went_live"
    BATCH_PROGRESSED = "batch.progressed"
    BATCH_ENDED = "batch.ended"
    BATCH_THRESHOLD_REACHED = "batch.error_threshold_reached"
    WAVE_APPROVAL_REQUIRED = "wave.approval_required"
    RECONCILIATION_DIFFERS = "reconciliation.differs"
    UNDO_STARTED = "undo.started"
    UNDO_ENDED = "undo.ended"
    API_KEY_EXPIRES = "api_key.expires"
    AUDIT_DAY_SEALED = "audit.day_sealed"
    WEBHOOK_DISABLED = "webhook.disabled"
    FEED_REWOUND = "feed.rewound"


class EventData(AnswerSchema):
    """The data of a type of event. The docstring is what the type means."""

    type: ClassVar[EventType]
    #: Whether it names an import supplier.
    of_supplier: ClassVar[bool] = True

    @classmethod
    def meaning(cls) -> str:
        """Return what the type means, for people."""
        return " ".join(str(cls.__doc__).split())

    @classmethod
    def event(cls) -> dict[str, Any]:
        """Return an example of an event, as webhooks send it."""
        return {
            "id": _ID,
            "type": cls.type.value,
            "created_at": _MOMENT,
            "import_supplier": "DEMO_SUPPLIER" if cls.of_supplier else None,
            "data": cls.example(),
        }


class AccountCreatedSchema(EventData):
    """A single request has created an account. Those of a batch are in `batch.progressed`."""

    type = EventType.ACCOUNT_CREATED

    external_account_number = answers.String(_NUMBER, "100000038")
    service_account_number = answers.String(_SERVICE_NUMBER, "A-7KX2M9QD")
    attempt_id = answers.UUID("The attempt that created it.", _ID)


class AccountFailedSchema(EventData):
    """An attempt of a single request to create an account has failed. Dry runs have no events."""

    type = EventType.ACCOUNT_FAILED

    external_account_number = answers.String(_NUMBER, "100000038")
    attempt_id = answers.UUID("The attempt that failed.", _ID)
    code = answers.String("The code of the error.", "account_failed_validation")
    codes = answers.List(answers.String, "The codes in its `errors`.", ["invalid_phone_number"])


class AccountWentLiveSchema(EventData):
    """An account has gone live: the platform owns it, and it can no longer be undone."""

    type = EventType.ACCOUNT_WENT_LIVE

    external_account_number = answers.String(_NUMBER, "100000038")
    service_account_number = answers.String(_SERVICE_NUMBER, "A-7KX2M9QD")
    go_live_id = answers.UUID("The go-live that it belongs to.", _ID)


class EventLineSchema(AnswerSchema):
    """One line of `batch.progressed`."""

    optional = frozenset({"external_account_number", "service_account_number", "codes"})

    line_number = answers.Integer("The number of the line in the file. The first is 1.", 1)
    status = answers.String("Its outcome.", "IMPORTED", words=states.LineStatus)
    external_account_number = answers.String(f"{_NUMBER} Absent if the line has no valid one.", "100000038")
    service_account_number = answers.String(f"{_SERVICE_NUMBER} Absent without one.", "A-7KX2M9QD")
    codes = answers.List(
        answers.String, "The codes of its errors. Absent without errors.", ["invalid_phone_number"]
    )


class BatchProgressedSchema(EventData):
    """Lines of a batch have got their outcome. One event usually has a hundred lines."""

    type = EventType.BATCH_PROGRESSED

    batch_id = answers.UUID("The batch.", _ID)
    kind = answers.String("The kind of its lines.", "accounts", words=states.BatchKind)
    mode = answers.String("What it does with them.", "import", words=states.BatchMode)
    counts = answers.Counts("The number of these lines by outcome.", {"IMPORTED": 1})
    lines = answers.List(EventLineSchema, "Lines that have just got their outcome.")


class BatchEndedSchema(EventData):
    """A batch is over."""

    type = EventType.BATCH_ENDED

    batch_id = answers.UUID("The batch.", _ID)
    kind = answers.String("The kind of its lines.", "accounts", words=states.BatchKind)
    mode = answers.String("What it did with them.", "import", words=states.BatchMode)
    state = answers.String(
        "How it ended. A STOPPED batch can be resumed, and failed lines of a COMPLETED one be retried.",
        "COMPLETED",
        words=[
            states.BatchState.COMPLETED.value,
            states.BatchState.CANCELLED.value,
            states.BatchState.STOPPED.value,
        ],
    )
    counts = answers.Counts("The number of its lines by status.", {"IMPORTED": 98, "FAILED": 2})


class BatchThresholdReachedSchema(EventData):
    """A batch has too many errors, and is paused until it is resumed."""

    type = EventType.BATCH_THRESHOLD_REACHED

    batch_id = answers.UUID("The batch, which is paused.", _ID)
    lines = answers.Integer("The number of lines that were counted.", 200)
    errors = answers.Integer("How many of them count as errors.", 120)
    codes = answers.Counts("The number of lines with each code that counts.", {"invalid_phone_number": 120})


class WaveApprovalRequiredSchema(EventData):
    """A wave is reconciled, and waits for a decision before the next one may start."""

    type = EventType.WAVE_APPROVAL_REQUIRED

    plan_id = answers.UUID("The plan of the wave.", _ID)
    number = answers.Integer("The number of the wave in its plan. The first is 1.", 1)
    batch_id = answers.UUID("The batch of the wave.", _ID)
    found = answers.String(
        "The result of its reconciliation.",
        "CLEAN",
        words=[states.WaveState.CLEAN.value, states.WaveState.DIFFERS.value],
    )


class ReconciliationDiffersSchema(EventData):
    """The reconciliation of a wave has found differences."""

    type = EventType.RECONCILIATION_DIFFERS

    plan_id = answers.UUID("The plan of the wave.", _ID)
    number = answers.Integer("The number of the wave in its plan. The first is 1.", 1)
    batch_id = answers.UUID("The batch of the wave.", _ID)
    differing = answers.Integer("The number of created accounts that differ from what was sent.", 1)
    open = answers.Integer("The number of accounts that were sent and neither created nor settled.", 2)


class UndoStartedSchema(EventData):
    """The removal of created accounts has started."""

    type = EventType.UNDO_STARTED

    undo_id = answers.UUID("The undo.", _ID)
    batch_id = answers.UUID(
        "The batch whose accounts are removed. Null for single accounts.", _ID, allow_none=True
    )
    accounts = answers.Integer("The number of accounts to remove.", 120)


class UndoEndedSchema(EventData):
    """The removal of created accounts is over."""

    type = EventType.UNDO_ENDED

    undo_id = answers.UUID("The undo.", _ID)
    batch_id = answers.UUID(
        "The batch whose accounts were removed. Null for single accounts.", _ID, allow_none=True
    )
    state = answers.String(
        "How it ended.",
        "COMPLETED",
        words=[states.UndoState.COMPLETED.value, states.UndoState.CANCELLED.value],
    )
    counts = answers.Counts(
        "The number of its accounts by outcome.",
        {states.UndoOutcome.REVERTED.value: 118, states.UndoOutcome.KEPT.value: 2},
    )


class ApiKeyExpiresSchema(EventData):
    """An API key of the organisation expires soon. Told 30, 7 and 1 days before."""

    type = EventType.API_KEY_EXPIRES
    of_supplier = False

    prefix = answers.String("The prefix of the key.", "ami_0123456789")
    expires_at = answers.Moment("When it expires, in UTC.", _MOMENT)
    days = answers.Integer("The number of days until then, at most.", 7)


class AuditDaySealedSchema(EventData):
    """A day of the service's audit is sealed, an hour after its end."""

    type = EventType.AUDIT_DAY_SEALED
    of_supplier = False

    day = answers.String("The day, in UTC.", "2026-02-28", openapi={"format": "date"})
    head = answers.String(
        "The head of the audit's chain of hashes, in hexadecimal. Keep it: it shows whether an entry up to "
        "this day is ever changed.",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    )


class WebhookDisabledSchema(EventData):
    """The service has switched off a webhook, which answered 410 or failed for days."""

    type = EventType.WEBHOOK_DISABLED
    of_supplier = False

    webhook_id = answers.UUID("The webhook.", _ID)
    reason = answers.String("Why.", "FAILING", words=_OFF_REASONS)


class FeedRewoundSchema(EventData):
    """The service's database was restored, or replaced by a copy that lacks what happened last.

    Events that were read before may never have happened, and others have taken their place. Read again from
    `cursor`, and leave out events whose id you know.
    """

    type = EventType.FEED_REWOUND
    of_supplier = False

    cursor = answers.String("The position from which to read again.", CURSOR)


#: Every type, in the order of the documentation.
CATALOGUE: Mapping[EventType, type[EventData]] = {it.type: it for it in EventData.__subclasses__()}


class EventSchema(AnswerSchema):
    """An event, without its data, which the catalogue describes for each type."""

    id = answers.UUID("The id of the event. The same event always has the same one.", _ID)
    type = answers.String("The type.", EventType.ACCOUNT_CREATED.value, words=EventType)
    created_at = answers.Moment("When its transaction began, in UTC.", _MOMENT)
    import_supplier = answers.String(
        "Code of the import supplier concerned. Null if it concerns none.", "DEMO_SUPPLIER", allow_none=True
    )


class FeedEventSchema(EventSchema):
    """An event of the feed."""

    data = answers.Dict(
        "What happened. Its members depend on the type, and are described in `webhooks`.",
        AccountCreatedSchema.example(),
    )
    cursor = answers.String(
        "The position of the event. Send it to read what follows. It means nothing else, and its form may "
        "change.",
        CURSOR,
    )


class EventErrorBodySchema(ErrorBodySchema):
    """The body of a 400 of the feed."""

    optional = frozenset({"cursor"})

    cursor = answers.String(
        "The position from which to read again, if it cannot be read on from that of the request.", CURSOR
    )


LARGEST_PAGE = 10_000


class _TypesOfEvents(Identifier):
    def deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the types, after everything else was checked."""
        text = super().deserialize(value, *args, **kwargs)
        if text is missing:
            return text
        names = [name.strip() for name in text.split(",")]
        unknown = [
            unknown_word(name, CATALOGUE, "type of event", "type") for name in names if name not in CATALOGUE
        ]
        if unknown:
            raise ValidationError([Message(error.detail, error.code) for error in unknown])
        return names


class _ConsumerName(Identifier):
    def _checked(self, text: str) -> str:
        # The service itself uses names with a colon.
        if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", text):
            detail = (
                "The name of a consumer has letters, digits, dots, hyphens and underscores, and starts with "
                "a letter or a digit."
            )
            raise ValidationError(Message(detail, "invalid_characters"))
        return text


class EventArgumentsSchema(Fields):
    """The query string of the feed."""

    cursor = Scope(
        "Only events after this one: its `cursor`, or `start` for the beginning of the feed.",
        CURSOR,
        max_length=128,
    )
    consumer = _ConsumerName(
        "A name of letters, digits, dots, hyphens and underscores, under which the service keeps your "
        "position. Events up to `cursor` are acknowledged by this request. Without `cursor`, the events "
        "after the last acknowledged one are returned again.",
        "billing",
        max_length=64,
    )
    type = _TypesOfEvents(
        "Only events of these types, separated by commas.", "account.created,batch.ended", max_length=1_000
    )
    import_supplier_code = Scope("Only events of this import supplier.", "DEMO_SUPPLIER")
    limit = PageSize(
        "At most this many events, 1 to 10,000. A page also ends after 500 kB. As NDJSON, all events that "
        "there are by default.",
        500,
        largest=LARGEST_PAGE,
    )


class EventConsumerAnswerSchema(AnswerSchema):
    """A named consumer of events."""

    name = answers.String("Its name.", "billing")
    cursor = answers.String(
        "The position up to which it has acknowledged events, or `start` if it has acknowledged none.", CURSOR
    )
    asked_at = answers.Moment("When it last asked for events, in UTC.", _MOMENT)

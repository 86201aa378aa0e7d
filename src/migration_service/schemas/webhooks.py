"""The bodies, query strings and responses of the endpoints for webhooks."""

from typing import Any, ClassVar

from marshmallow import ValidationError, validates_schema

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, CommandFields
from migration_payloads.schemas.coded import Messages
from migration_payloads.schemas.messages import Message
from migration_service.schemas import answers
from migration_service.schemas.events import EventType
from migration_service.states import DeliveryFailure, DeliveryState, EndpointOff

_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_MOMENT = "2026-03-01T10:15:00Z"
_URL = "https://billing.example.com/migration-events"
_TYPES = ["account.created", "batch.ended"]
#: A secret for examples.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="  # noqa: S105
#: The longest time for which the old secret signs after a rotation, and the usual one, in hours.
LONGEST_OVERLAP, USUAL_OVERLAP = 7 * 24, 24


def _require_some(values: list[Any] | None) -> None:
    if values is not None and not values:
        raise ValidationError(Message("This list may not be empty.", "empty"))


class WebhookChangeSchema(CommandFields):
    """The body for changing a webhook. What is left out stays as it is."""

    url = fields.Identifier("Where events are sent: https and a public host.", _URL, max_length=2_048)
    description = fields.Text("A name for people.", "Billing", max_length=256)
    event_types = fields.Values(
        fields.Choice(EventType),
        "The types of events that are sent. Null for all, including future ones.",
        _TYPES,
        allow_none=True,
        validate=_require_some,
    )
    import_suppliers = fields.Values(
        fields.NormalIdentifier(),
        "Codes of the import suppliers whose events are sent. Null for all events of the organisation, also "
        "those that concern no supplier.",
        ["DEMO_SUPPLIER"],
        allow_none=True,
        validate=_require_some,
    )
    enabled = fields.Flag("Whether events are sent.", True)


class WebhookBodySchema(WebhookChangeSchema):
    """The body for creating a webhook."""

    url = fields.Identifier(
        "Where events are sent: https and a public host.", _URL, required=True, max_length=2_048
    )


class OperatorsChangeSchema(WebhookChangeSchema):
    """What operators can change. Only they name a person to whom the service sends e-mail."""

    email = fields.EmailAddress(
        "Who is told if the webhook is switched off. Null for nobody.", "owner@example.com", allow_none=True
    )


class RotationSchema(CommandFields):
    """The body for a new secret."""

    overlap_hours = fields.WholeNumber(
        f"Hours for which messages are signed with the old secret, too, 0 to {LONGEST_OVERLAP}.",
        USUAL_OVERLAP,
        load_default=USUAL_OVERLAP,
        openapi={"minimum": 0, "maximum": LONGEST_OVERLAP},
    )

    @validates_schema(skip_on_field_errors=True)
    def check_hours(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require an overlap within the bounds."""
        if not 0 <= data["overlap_hours"] <= LONGEST_OVERLAP:
            message = Message(f"Expected 0 to {LONGEST_OVERLAP} hours.", "out_of_range")
            raise ValidationError(message, "overlap_hours")


class _DeliveryNumber(fields.WholeNumber):
    """The number of a delivery, which fits 64 bits."""

    default_error_messages: Messages = {
        "range": Message("{found} is not the number of a delivery.", "out_of_range")
    }
    bound: ClassVar[int] = 2**63


class RedeliverySchema(CommandFields):
    """The events to send again: one, or those since a time."""

    delivery_number = _DeliveryNumber("The event of this delivery.", 4711)
    since = fields.UtcMoment("Instead: events whose `created_at` is not before then.", "2026-03-01T00:00:00Z")
    only_failed = fields.Flag(
        "With `since`: only events whose deliveries have failed. Otherwise all, also those from the time "
        "when the webhook was switched off.",
        True,
        load_default=False,
    )

    @validates_schema(skip_on_field_errors=True)
    def check_events(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require a delivery or a time."""
        if ("delivery_number" in data) == ("since" in data):
            raise ValidationError(
                Message("Expected exactly one of delivery_number and since.", "required"), "since"
            )


class WebhookAnswerSchema(AnswerSchema):
    """A webhook."""

    webhook_id = answers.UUID("The id of the webhook.", _ID, attribute="id")
    url = answers.String("Where events are sent.", _URL)
    description = answers.String("A name for people.", "Billing")
    event_types = answers.List(
        answers.String, "The types of events that are sent. Null for all.", _TYPES, allow_none=True
    )
    import_suppliers = answers.List(
        answers.String,
        "The import suppliers whose events are sent. Null for all events of the organisation.",
        None,
        allow_none=True,
    )
    email = answers.String(
        "Who is told if it is switched off. Operators set it.", "owner@example.com", allow_none=True
    )
    created_at = answers.Moment("When it was created, in UTC.", _MOMENT)
    enabled = answers.Boolean("Whether events are sent.", True)
    disabled_at = answers.Moment("Since when it is switched off. Null if it is on.", None, allow_none=True)
    disabled_reason = answers.String(
        "Why it is switched off: a person did it, it answered 410, it failed for five days, or the key that "
        "created it was revoked.",
        None,
        allow_none=True,
        words=EndpointOff,
    )
    failing_since = answers.Moment(
        "Since when every attempt has failed. Null if the last one did not.", None, allow_none=True
    )


class NewWebhookAnswerSchema(WebhookAnswerSchema):
    """A new webhook with its secret."""

    secret = answers.String("The secret that signs messages. It is not shown again.", SECRET)


class NewSecretAnswerSchema(AnswerSchema):
    """A new secret."""

    secret = answers.String("The secret that signs messages. It is not shown again.", SECRET)


class WebhookAttemptAnswerSchema(AnswerSchema):
    """One attempt to deliver an event."""

    number = answers.Integer("The number of the attempt. The first is 1.", 1)
    at = answers.Moment("When it began, in UTC.", _MOMENT)
    milliseconds = answers.Integer("How long it took.", 87)
    status = answers.Integer("The status of the answer. Null without an answer.", 500, allow_none=True)
    error = answers.String(
        "Why it failed. Null if the event was delivered.", "status", allow_none=True, words=DeliveryFailure
    )
    answer = answers.String("The first characters of the answer.", "Internal Server Error")


class WebhookDeliveryAnswerSchema(AnswerSchema):
    """A delivery of an event."""

    delivery_number = answers.Integer("The number of the delivery.", 4711, attribute="id")
    event_id = answers.UUID("The event, and the header `webhook-id`.", _ID)
    event_type = answers.String("The type of the event.", "account.created")
    state = answers.String("Its state.", "PENDING", words=DeliveryState)
    replay = answers.Boolean(
        "Whether it was asked for: a redelivery, or a test.", False, attribute="is_replay"
    )
    attempts = answers.Integer("The number of attempts so far.", 1)
    created_at = answers.Moment("When it was recorded, in UTC.", _MOMENT)
    next_attempt_at = answers.Moment(
        "When it is sent next, in UTC. Null if it has ended.",
        "2026-03-01T10:15:05Z",
        allow_none=True,
        attribute="next_attempt",
    )
    settled_at = answers.Moment("When it ended, in UTC. Null while it is pending.", None, allow_none=True)
    attempt_list = answers.List(
        WebhookAttemptAnswerSchema, "Its attempts. In the list of deliveries, only the last one."
    )


class RedeliveredAnswerSchema(AnswerSchema):
    """How many events are sent again."""

    events = answers.Integer("The number of events that are sent again.", 12)

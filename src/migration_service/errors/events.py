"""Errors of reading events, and about webhooks."""

from typing import Any

from migration_payloads.errors import InvalidError
from migration_service.errors.base import NotFoundError


class EventCursorInvalidError(InvalidError):
    """The cursor was not given by the feed of this organisation."""

    code = "event_cursor_invalid"
    default_detail = "This is not a cursor of this feed."
    default_attr = "cursor"
    remedy = (
        "Send a `cursor` as you got it. If it is one of another service or organisation, begin with "
        "`cursor=start`."
    )


class EventCursorError(InvalidError):
    """A position in the feed from which it cannot be read on without leaving out events."""

    def __init__(self, detail: str | None = None, *, cursor: str = "start") -> None:
        super().__init__(detail)
        #: The position from which to read again. `start` is before the oldest event.
        self.cursor = cursor

    def extra_fields(self) -> dict[str, Any]:
        """Return the position from which to read again."""
        return {"cursor": self.cursor}


class EventCursorExpiredError(EventCursorError):
    """Events that follow the cursor were removed at the end of their retention period."""

    code = "event_cursor_expired"
    default_detail = "Events that follow this cursor are no longer kept."
    default_attr = "cursor"
    remedy = (
        "Find out from the lists and the reconciliation what you missed, and read on from the `cursor` of "
        "this answer."
    )


class EventCursorAheadError(EventCursorError):
    """The feed has lost the event at the cursor, because the database was restored from a backup.

    Events that follow could have positions before it.
    """

    code = "event_cursor_ahead"
    default_detail = (
        "The event at this cursor does not exist any more. The database was set back to an earlier moment."
    )
    default_attr = "cursor"
    remedy = (
        "Read again from the `cursor` of this answer, and leave out events whose id you know. What those "
        "told that do not come again never happened."
    )


class TooManyConsumersError(InvalidError):
    """The organisation has as many named consumers of events as it may have."""

    code = "too_many_event_consumers"
    default_detail = "Your organisation has too many named consumers of events."
    default_attr = "consumer"
    remedy = "Forget a consumer that is no longer used, or keep the cursor yourself."


class EventConsumerNotFoundError(NotFoundError):
    """The consumer of events does not exist, or belongs to another organisation."""

    code = "event_consumer_not_found"
    default_detail = "The consumer of events does not exist."
    detail_with_found = "There is no consumer of events {found}."
    remedy = "Check the name with the list of consumers."


class WebhookNotFoundError(NotFoundError):
    """The webhook does not exist, or belongs to another organisation."""

    code = "webhook_not_found"
    default_detail = "The webhook does not exist, or belongs to another organisation."
    detail_with_found = "Webhook {found} does not exist, or belongs to another organisation."
    remedy = "Check the id of the webhook."


class WebhookDeliveryNotFoundError(NotFoundError):
    """The webhook has no delivery with this number. Deliveries are kept for 30 days."""

    code = "webhook_delivery_not_found"
    default_detail = "The webhook has no such delivery."
    detail_with_found = "The webhook has no delivery {found}."
    remedy = "Check the number of the delivery. Deliveries are kept for 30 days."


class WebhookUrlError(InvalidError):
    """The URL of a webhook is not one to which events can be sent."""

    code = "webhook_url_not_allowed"
    default_detail = "Events cannot be sent to this URL."
    remedy = "Use an https URL of a public host, without a user, a password or a fragment."
    default_attr = "url"


class TooManyWebhooksError(InvalidError):
    """The organisation has as many webhooks as it can have."""

    code = "too_many_webhooks"
    default_detail = "The organisation has as many webhooks as it can have."
    remedy = "Remove a webhook, or let one receive more types of events."


class TooManyRedeliveriesError(InvalidError):
    """The organisation has had as many events sent again within a day as it can have."""

    code = "too_many_redeliveries"
    default_detail = "The organisation has had too many events sent again within a day."
    remedy = "Take a later time, wait until tomorrow, or read these events from the feed."

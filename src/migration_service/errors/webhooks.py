"""Errors about webhooks."""

from migration_payloads.errors import InvalidError
from migration_service.errors.base import NotFoundError


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

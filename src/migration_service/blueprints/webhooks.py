"""Webhooks: endpoints of the organisation, to which its events are sent."""

from typing import Any

from flask import Response, jsonify, url_for
from sqlalchemy.orm import Session

from migration_payloads.schemas.fields import Choice
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body, query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, answer_with_effect, idempotent
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.resources import resources
from migration_service.models import WebhookEndpoint
from migration_service.schemas import webhooks
from migration_service.schemas.paging import page_arguments, row_id
from migration_service.services.webhooks import deliveries, endpoints
from migration_service.services.webhooks.secrets import Seal
from migration_service.states import DeliveryState

blueprint = make_blueprint("webhooks", "webhooks", "Have events sent to you, signed, as they happen.")

_WEBHOOK = webhooks.WebhookAnswerSchema.example()
_DELIVERY = webhooks.WebhookDeliveryAnswerSchema.example()
_BODY = {"url": _WEBHOOK["url"], "event_types": _WEBHOOK["event_types"]}
_VALUE_ERRORS = (errors.WebhookUrlError, errors.ImportSupplierNotFoundInBodyError)


def _close(body: bytes) -> bytes:
    """Return an answer that has a secret as it is kept for a repeated request."""
    return _seal().close(body.decode()).encode()


def _open(kept: bytes) -> bytes:
    return _seal().open(kept.decode()).encode()


def _seal() -> Seal:
    return Seal(resources().settings.webhook_keys)


@blueprint.post("/", endpoint="create_webhook")
@idempotent(opened=_open)
@blueprint.response(
    201,
    webhooks.NewWebhookAnswerSchema,
    example=_WEBHOOK | {"secret": webhooks.SECRET},
    headers=refer("Location"),
)
@answers_errors(*_VALUE_ERRORS, errors.TooManyWebhooksError, *KEY_ERRORS)
@json_body(webhooks.WebhookBodySchema(), _BODY)
def create(body: dict[str, Any]) -> Response:
    """Create a webhook

    The response has the secret with which you verify messages. It is not shown again. Events that happen from
    now on are sent.
    """
    rules = endpoints.address_rules(resources().settings)
    with resources().Session.begin() as session:
        endpoint, secret = endpoints.create_endpoint(
            session, caller().organisation_id, rules, _seal(), body, caller=caller()
        )
        report = _dump(session, endpoint) | {"secret": secret}
        location = url_for("webhooks.get_webhook", webhook_id=endpoint.id)
        return answer_with_effect(session, report, 201, location, closed=_close, subject=endpoint.id)


@blueprint.get("/", endpoint="list_webhooks")
@blueprint.response(200, webhooks.WebhookAnswerSchema(many=True))
@answers_errors()
def list_all() -> Response:
    """List the organisation's webhooks

    At most 50, the oldest first.
    """
    with resources().Session.begin() as session:
        found = endpoints.list_endpoints(session, caller())
    return jsonify(webhooks.WebhookAnswerSchema(many=True).dump(found))


@blueprint.get("/<webhook_id>/", endpoint="get_webhook")
@blueprint.response(200, webhooks.WebhookAnswerSchema)
@answers_errors(errors.WebhookNotFoundError)
def get_one(webhook_id: str) -> Response:
    """Get a webhook

    It does not include the secret.
    """
    with resources().Session.begin() as session:
        return jsonify(_dump(session, _find(session, webhook_id)))


@blueprint.patch("/<webhook_id>/", endpoint="change_webhook")
@blueprint.response(200, webhooks.WebhookAnswerSchema, example=_WEBHOOK | {"enabled": True})
@answers_errors(*_VALUE_ERRORS, errors.WebhookNotFoundError)
@json_body(webhooks.WebhookChangeSchema(), {"enabled": True})
def change(body: dict[str, Any], webhook_id: str) -> Response:
    """Change a webhook, or switch it off or on

    Events that happen while it is switched off are not sent to it. Have them redelivered afterwards.
    """
    with resources().Session.begin() as session:
        endpoint = _find(session, webhook_id, lock=True)
        rules = endpoints.address_rules(resources().settings)
        endpoints.change_endpoint(session, endpoint, rules, body, caller=caller())
        return jsonify(_dump(session, endpoint))


@blueprint.delete("/<webhook_id>/", endpoint="remove_webhook")
@blueprint.response(200, webhooks.WebhookAnswerSchema)
@answers_errors(errors.WebhookNotFoundError)
def remove(webhook_id: str) -> Response:
    """Remove a webhook for ever

    The response is the webhook as it was.
    """
    with resources().Session.begin() as session:
        endpoint = _find(session, webhook_id, lock=True)
        answer = jsonify(_dump(session, endpoint))
        endpoints.remove_endpoint(session, endpoint)
    return answer


@blueprint.post("/<webhook_id>/secret/", endpoint="rotate_webhook_secret")
@idempotent(opened=_open)
@blueprint.response(200, webhooks.NewSecretAnswerSchema, example={"secret": webhooks.SECRET})
@answers_errors(errors.WebhookNotFoundError, *KEY_ERRORS)
@json_body(webhooks.RotationSchema(), {"overlap_hours": 24})
def rotate(body: dict[str, Any], webhook_id: str) -> Response:
    """Replace the secret of a webhook

    Until the overlap ends, messages have a signature of the new secret and one of the old.
    """
    with resources().Session.begin() as session:
        endpoint = _find(session, webhook_id, lock=True)
        secret = endpoints.rotate_secret(session, endpoint, _seal(), **body)
        return answer_with_effect(session, {"secret": secret}, 200, closed=_close, subject=endpoint.id)


@blueprint.post("/<webhook_id>/test/", endpoint="test_webhook")
@idempotent()
@blueprint.response(
    202, webhooks.WebhookDeliveryAnswerSchema, example=_DELIVERY | {"event_type": "webhook.test"}
)
@answers_errors(errors.WebhookNotFoundError, errors.TooManyRedeliveriesError, *KEY_ERRORS)
def send_test_event(webhook_id: str) -> Response:
    """Send a test event

    It has the type `webhook.test`, and is sent even if the webhook is switched off. It is not in the feed.
    """
    with resources().Session.begin() as session:
        endpoint = _find(session, webhook_id)
        delivery = deliveries.send_test(session, endpoint)
        report = webhooks.WebhookDeliveryAnswerSchema().dump(deliveries.report_delivery(session, delivery))
        return answer_with_effect(session, report, 202, subject=endpoint.id)


@blueprint.get("/<webhook_id>/deliveries/", endpoint="list_webhook_deliveries")
@query_arguments(
    page_arguments(
        "deliveries", row_id, state=Choice(DeliveryState, "Only deliveries in this state.", "FAILED")
    )
)
@blueprint.response(200, webhooks.WebhookDeliveryAnswerSchema(many=True), headers=refer("Link"))
@answers_errors(errors.WebhookNotFoundError)
def list_all_deliveries(arguments: dict[str, Any], webhook_id: str) -> Response:
    """List the deliveries of a webhook, newest first

    The last 30 days, each with its last attempt. The response is one page. A Link header (rel="next") leads
    to the next one.
    """
    listing = Listing.read(arguments)
    state = DeliveryState(arguments["state"]) if "state" in arguments else None
    with resources().Session.begin() as session:
        found = deliveries.list_deliveries(
            session, _find(session, webhook_id), state=state, before=listing.after, limit=listing.wanted
        )
    return listing.answer(found, "id", webhooks.WebhookDeliveryAnswerSchema().dump)


@blueprint.get("/<webhook_id>/deliveries/<delivery_number>/", endpoint="get_webhook_delivery")
@blueprint.response(200, webhooks.WebhookDeliveryAnswerSchema)
@answers_errors(errors.WebhookNotFoundError, errors.WebhookDeliveryNotFoundError)
def get_one_delivery(webhook_id: str, delivery_number: str) -> Response:
    """Get a delivery with all its attempts

    Each attempt has the status and the first characters of the answer, or why there was none.
    """
    with resources().Session.begin() as session:
        delivery = deliveries.get_delivery(session, _find(session, webhook_id), delivery_number)
        return jsonify(
            webhooks.WebhookDeliveryAnswerSchema().dump(deliveries.report_delivery(session, delivery))
        )


@blueprint.post("/<webhook_id>/redeliver/", endpoint="redeliver_webhook")
@idempotent()
@blueprint.response(202, webhooks.RedeliveredAnswerSchema, example={"events": 12})
@answers_errors(
    errors.WebhookNotFoundError,
    errors.WebhookDeliveryNotFoundError,
    errors.TooManyRedeliveriesError,
    *KEY_ERRORS,
)
@json_body(webhooks.RedeliverySchema(), {"since": "2026-03-01T00:00:00Z", "only_failed": True})
def send_again(body: dict[str, Any], webhook_id: str) -> Response:
    """Send events again: one, all since a time, or all that have failed since

    They have the same `webhook-id`, are signed with the current secret, and are sent even if the webhook is
    switched off. Failures do not count towards switching it off. Events that are about to be sent anyway are
    left out.
    """
    with resources().Session.begin() as session:
        endpoint = _find(session, webhook_id)
        if "delivery_number" in body:
            deliveries.redeliver(
                session, endpoint, deliveries.get_delivery(session, endpoint, body["delivery_number"])
            )
            events = 1
        else:
            events = deliveries.redeliver_since(
                session, endpoint, body["since"], only_failed=body["only_failed"]
            )
        return answer_with_effect(session, {"events": events}, 202, subject=endpoint.id)


def _find(session: Session, webhook_id: str, *, lock: bool = False) -> WebhookEndpoint:
    return endpoints.get_endpoint(session, webhook_id, caller(), lock=lock)


def _dump(session: Session, endpoint: WebhookEndpoint) -> dict[str, Any]:
    dumped: dict[str, Any] = webhooks.WebhookAnswerSchema().dump(endpoints.report_endpoint(session, endpoint))
    return dumped

"""The endpoints of an organisation: who gets which events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.destinations.protocol import queue_of
from migration_service.errors import (
    ImportSupplierNotFoundInBodyError,
    TooManyWebhooksError,
    WebhookCredentialsError,
    WebhookNotFoundError,
    WebhookUrlError,
)
from migration_service.models import ImportSupplier, Organisation, WebhookEndpoint
from migration_service.origin import ActorKind, current_origin
from migration_service.outgoing.rules import AddressRules
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.events.consumers import advance_consumer, remove_consumer
from migration_service.services.events.reading import read_events
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.webhooks.secrets import Seal, add_secret
from migration_service.states import EndpointKind, EndpointOff, EventFormat

#: The most endpoints of an organisation. Each costs every event of it some time.
MOST_ENDPOINTS = 50


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """An endpoint, as its organisation sees it."""

    webhook_id: UUID
    organisation: str
    kind: str
    url: str
    description: str
    #: None for all types and suppliers.
    event_types: list[str] | None
    import_suppliers: list[str] | None
    format: str
    ordered: bool
    email: str | None
    created_at: Any
    enabled: bool
    disabled_at: Any
    disabled_reason: str | None
    failing_since: Any


def create_endpoint(
    session: Session,
    organisation_id: int,
    rules: AddressRules,
    seal: Seal,
    values: Mapping[str, Any],
) -> tuple[WebhookEndpoint, str]:
    """Create an endpoint, and return it with its secret, which is not shown again.

    `values` are those of `change_endpoint`, with `url`, which is required, and `ordered`. An endpoint of a
    caller whose key is limited to import suppliers gets the events of these only. Raise WebhookUrlError,
    WebhookCredentialsError, TooManyWebhooksError, ImportSupplierNotFoundInBodyError and
    PermissionDeniedError.
    """
    session.execute(
        select(Organisation.id).where(Organisation.id == organisation_id).with_for_update(key_share=True)
    )
    mine = (WebhookEndpoint.organisation_id == organisation_id, WebhookEndpoint.removed_at.is_(None))
    if session.scalars(select(func.count()).where(*mine)).one() >= MOST_ENDPOINTS:
        raise TooManyWebhooksError
    endpoint = WebhookEndpoint(id=new_id(), organisation_id=organisation_id)
    limited = _limits_of_key()
    endpoint.import_supplier_ids = None if limited is None else sorted(limited)
    endpoint.is_ordered = values.get("ordered", False)
    _set(session, endpoint, rules, seal, values)
    if not values.get("enabled", True):
        _switch(endpoint, on=False)
    session.add(endpoint)
    session.flush()
    secret = add_secret(session, endpoint.id, seal, overlap=timedelta())
    if endpoint.is_ordered:
        _start_order(session, endpoint)
    _record(session, AuditAction.WEBHOOK_CREATED, endpoint, _audited(endpoint))
    return endpoint, secret


def change_endpoint(
    session: Session, endpoint: WebhookEndpoint, rules: AddressRules, seal: Seal, values: Mapping[str, Any]
) -> None:
    """Change the given values of an endpoint.

    They are `url`, `description`, `event_types` and `import_suppliers` (codes; None for all), `format`,
    `email`, `enabled` and `credentials` (of a queue, which are forgotten if the URL changes without them).
    Raise the errors of `create_endpoint`.
    """
    before, was_off = _audited(endpoint), endpoint.disabled_at is not None
    _set(session, endpoint, rules, seal, values)
    if values.get("enabled") == was_off:
        _switch(endpoint, on=was_off)
    session.flush()
    after = _audited(endpoint)
    changed = {name: value for name, value in after.items() if value != before[name]}
    if changed:
        _record(session, AuditAction.WEBHOOK_CHANGED, endpoint, changed)


def remove_endpoint(session: Session, endpoint: WebhookEndpoint) -> None:
    """Remove an endpoint for ever. Nothing more is sent to it."""
    endpoint.removed_at = func.now()
    remove_consumer(session, endpoint.organisation_id, consumer_of(endpoint.id))
    _record(session, AuditAction.WEBHOOK_REMOVED, endpoint, {})


def rotate_secret(session: Session, endpoint: WebhookEndpoint, seal: Seal, *, overlap_hours: int) -> str:
    """Give an endpoint a new secret and return it. The old one is used as well until the overlap ends."""
    secret = add_secret(session, endpoint.id, seal, overlap=timedelta(hours=overlap_hours))
    _record(session, AuditAction.WEBHOOK_SECRET_ROTATED, endpoint, {"overlap_hours": overlap_hours})
    return secret


def has_endpoints(session: Session) -> bool:
    """Return whether any organisation has an endpoint."""
    found = session.scalar(select(WebhookEndpoint.id).where(WebhookEndpoint.removed_at.is_(None)).limit(1))
    return found is not None


def get_endpoint(
    session: Session, webhook_id: str | UUID, *, organisation_id: int | None, lock: bool = False
) -> WebhookEndpoint:
    """Return the endpoint of the organisation, or of any if None. Raise WebhookNotFoundError."""
    try:
        wanted = UUID(str(webhook_id))
    except ValueError:
        raise WebhookNotFoundError(found=webhook_id) from None
    statement = select(WebhookEndpoint).where(WebhookEndpoint.id == wanted, *_visible(organisation_id))
    endpoint = session.scalar(statement.with_for_update(key_share=True) if lock else statement)
    if endpoint is None:
        raise WebhookNotFoundError(found=webhook_id)
    return endpoint


def list_endpoints(
    session: Session, *, organisation_ids: Sequence[int] | None = None, endpoint_id: UUID | None = None
) -> list[EndpointReport]:
    """Return the endpoints of these organisations, or of all if None, the oldest first."""
    conditions = [WebhookEndpoint.removed_at.is_(None), *_limited()]
    if organisation_ids is not None:
        conditions.append(WebhookEndpoint.organisation_id.in_(organisation_ids))
    if endpoint_id is not None:
        conditions.append(WebhookEndpoint.id == endpoint_id)
    rows = session.execute(
        select(WebhookEndpoint, Organisation.name)
        .join(Organisation, Organisation.id == WebhookEndpoint.organisation_id)
        .where(*conditions)
        .order_by(WebhookEndpoint.id)
    ).all()
    wanted = {it for endpoint, _ in rows for it in endpoint.import_supplier_ids or ()}
    found = session.execute(
        select(ImportSupplier.id, ImportSupplier.code).where(ImportSupplier.id.in_(wanted))
    )
    codes = {row.id: row.code for row in found}
    return [_report(endpoint, owner, codes) for endpoint, owner in rows]


def report_endpoint(session: Session, endpoint: WebhookEndpoint) -> EndpointReport:
    """Return the report of one endpoint."""
    session.flush()
    session.refresh(endpoint)
    (report,) = list_endpoints(session, endpoint_id=endpoint.id)
    return report


def consumer_of(endpoint_id: UUID) -> str:
    """Return the name of the consumer with the position of an ordered endpoint."""
    return f"webhook:{endpoint_id}"


def _start_order(session: Session, endpoint: WebhookEndpoint) -> None:
    """Let an ordered endpoint begin with the events that come from now on."""
    # No type is wanted, so the position is that of the last event.
    end = read_events(session, endpoint.organisation_id, None, types=(), limit=1).position
    advance_consumer(session, endpoint.organisation_id, consumer_of(endpoint.id), end)


def _set(
    session: Session, endpoint: WebhookEndpoint, rules: AddressRules, seal: Seal, values: Mapping[str, Any]
) -> None:
    if "url" in values:
        endpoint.kind = _check_url(rules, values["url"])
        if endpoint.url != values["url"]:  # they are secret, and the new server may be another one's
            endpoint.credentials = None
        endpoint.url = values["url"]
    if "credentials" in values:
        given = values["credentials"]
        if given is not None and endpoint.kind != EndpointKind.QUEUE:
            raise WebhookCredentialsError
        endpoint.credentials = None if given is None else seal.close(given)
    if "import_suppliers" in values:
        endpoint.import_supplier_ids = _supplier_ids(session, endpoint, values["import_suppliers"])
    if "event_types" in values:
        endpoint.event_types = None if values["event_types"] is None else sorted(set(values["event_types"]))
    if "description" in values:
        endpoint.description = values["description"]
    if "format" in values:
        endpoint.format = EventFormat(values["format"])
    if "email" in values:
        endpoint.email = values["email"]


def _check_url(rules: AddressRules, url: str) -> EndpointKind:
    """Return what this URL leads to. Raise WebhookUrlError."""
    try:
        if url.startswith("amqp"):
            rules.check_url(url, ("amqps", "amqp"))
            queue_of(url)
            return EndpointKind.QUEUE
        rules.check_url(url)
    except ValueError as error:
        raise WebhookUrlError(str(error)) from None
    return EndpointKind.URL


def _supplier_ids(
    session: Session, endpoint: WebhookEndpoint, codes: Sequence[str] | None
) -> list[int] | None:
    if codes is None:
        limited = _limits_of_key()
        return None if limited is None else sorted(limited)
    owner = endpoint.organisation_id
    found = {
        get_import_supplier(session, code, organisation_id=owner, error=ImportSupplierNotFoundInBodyError).id
        for code in codes
    }
    return sorted(found)


def _switch(endpoint: WebhookEndpoint, *, on: bool) -> None:
    endpoint.disabled_at = None if on else func.now()
    endpoint.disabled_reason = None if on else EndpointOff.PERSON
    if on:
        endpoint.failing_since = endpoint.last_failed_at = endpoint.held_until = None


def _visible(organisation_id: int | None) -> list[Any]:
    mine = [] if organisation_id is None else [WebhookEndpoint.organisation_id == organisation_id]
    return [WebhookEndpoint.removed_at.is_(None), *mine, *_limited()]


def _limits_of_key() -> frozenset[int] | None:
    """Return the suppliers that the caller's key is limited to. Operators are bound to organisations."""
    origin = current_origin()
    return origin.import_supplier_ids if origin.kind is ActorKind.API_KEY else None


def _limited() -> list[Any]:
    """Return the condition that a caller's key may see all events of an endpoint."""
    limited = _limits_of_key()
    return [] if limited is None else [WebhookEndpoint.import_supplier_ids.contained_by(sorted(limited))]


def _report(endpoint: WebhookEndpoint, owner: str, codes: Mapping[int, str]) -> EndpointReport:
    ids = endpoint.import_supplier_ids
    return EndpointReport(
        webhook_id=endpoint.id,
        organisation=owner,
        kind=endpoint.kind,
        url=endpoint.url,
        description=endpoint.description,
        event_types=endpoint.event_types,
        import_suppliers=None if ids is None else sorted(codes[it] for it in ids),
        format=endpoint.format,
        ordered=endpoint.is_ordered,
        email=endpoint.email,
        created_at=endpoint.created_at,
        enabled=endpoint.disabled_at is None,
        disabled_at=endpoint.disabled_at,
        disabled_reason=endpoint.disabled_reason,
        failing_since=endpoint.failing_since,
    )


def _audited(endpoint: WebhookEndpoint) -> dict[str, Any]:
    # Not the address of the owner, which is personal data.
    names = ("kind", "url", "event_types", "import_supplier_ids", "format", "is_ordered")
    values = {name: getattr(endpoint, name) for name in names}
    return values | {"enabled": endpoint.disabled_reason is None}


def _record(
    session: Session, action: AuditAction, endpoint: WebhookEndpoint, details: Mapping[str, Any]
) -> None:
    owner = endpoint.organisation_id
    record(session, action, "webhook", endpoint.id, organisation_id=owner, details=details)

"""The endpoints of an organisation: who gets which events."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.config import Settings
from migration_service.db.base import new_id
from migration_service.models import ImportSupplier, Organisation, WebhookEndpoint, WebhookSecret
from migration_service.outgoing.rules import AddressRules, show_url
from migration_service.schemas.webhooks import OperatorsChangeSchema
from migration_service.services.access.callers import Caller
from migration_service.services.audit.entries import AuditAction, record_about
from migration_service.services.idempotency.keys import void_answers
from migration_service.services.setup.suppliers import find_import_supplier
from migration_service.services.webhooks.secrets import Seal, add_secret
from migration_service.states import EndpointOff

#: The most endpoints of an organisation. Each costs every event of it some time.
MOST_ENDPOINTS = 50


#: The names of the routes whose answers are kept for requests with a key.
_ANSWERING = [
    f"webhooks.{it}"
    for it in ("create_webhook", "rotate_webhook_secret", "test_webhook", "redeliver_webhook")
]
#: The values that are stored as they are given.
PLAIN = frozenset(OperatorsChangeSchema().fields) - {"event_types", "import_suppliers", "enabled"}
#: The address of the owner is personal, a name is for people only, and a URL may have something secret.
_NOT_AUDITED = {"email", "description", "url"}


def address_rules(settings: Settings) -> AddressRules:
    """Return where webhooks may be sent."""
    return AddressRules.from_texts(settings.webhook_networks, allows_http=settings.webhook_http)


def create_endpoint(
    session: Session,
    organisation_id: int,
    rules: AddressRules,
    seal: Seal,
    values: Mapping[str, Any],
    *,
    caller: Caller | None = None,
) -> tuple[WebhookEndpoint, str]:
    """Create an endpoint, and return it with its secret, which is not shown again.

    `values` are those of `change_endpoint`, with `url`, which is required. `caller` is None for an operator.
    An endpoint of a caller who is limited to import suppliers gets the events of these only. Raise
    WebhookUrlError, TooManyWebhooksError, ImportSupplierNotFoundInBodyError and PermissionDeniedError.
    """
    session.execute(
        select(Organisation.id).where(Organisation.id == organisation_id).with_for_update(key_share=True)
    )
    mine = (WebhookEndpoint.organisation_id == organisation_id, WebhookEndpoint.removed_at.is_(None))
    if session.scalars(select(func.count()).where(*mine)).one() >= MOST_ENDPOINTS:
        raise errors.TooManyWebhooksError
    endpoint = WebhookEndpoint(id=new_id(), organisation_id=organisation_id)
    endpoint.api_key_id = caller.api_key_id if caller else None
    endpoint.import_supplier_ids = _limits_of(caller)
    _set(session, endpoint, rules, values, caller)
    if not values.get("enabled", True):
        _switch(endpoint, on=False)
    session.add(endpoint)
    session.flush()
    secret = add_secret(session, endpoint.id, seal, overlap=timedelta())
    record_about(session, AuditAction.WEBHOOK_CREATED, endpoint, _audited(endpoint))
    return endpoint, secret


def change_endpoint(
    session: Session,
    endpoint: WebhookEndpoint,
    rules: AddressRules,
    values: Mapping[str, Any],
    *,
    caller: Caller | None = None,
) -> None:
    """Change the given values of an endpoint.

    They are `url`, `description`, `event_types` and `import_suppliers` (codes; None for all), `enabled`, and
    `email`, which the schema of clients does not have. Raise the errors of `create_endpoint`.
    """
    before, was_off = _audited(endpoint), endpoint.disabled_at is not None
    _set(session, endpoint, rules, values, caller)
    if values.get("enabled") == was_off:
        _switch(endpoint, on=was_off)
    session.flush()
    after = _audited(endpoint)
    changed = {name: value for name, value in after.items() if value != before[name]}
    if changed:
        record_about(session, AuditAction.WEBHOOK_CHANGED, endpoint, changed)


def remove_endpoint(session: Session, endpoint: WebhookEndpoint) -> None:
    """Remove an endpoint, its secrets and the kept answers about it for ever. Nothing more is sent to it.

    Its row and its deliveries are removed later (`deliveries.remove_old_deliveries`).
    """
    endpoint.removed_at = func.now()
    session.execute(delete(WebhookSecret).where(WebhookSecret.endpoint_id == endpoint.id))
    void_answers(session, endpoint.organisation_id, _ANSWERING, endpoint.id)
    record_about(session, AuditAction.WEBHOOK_REMOVED, endpoint)


def rotate_secret(session: Session, endpoint: WebhookEndpoint, seal: Seal, *, overlap_hours: int) -> str:
    """Give an endpoint a new secret and return it. The old one is used as well until the overlap ends."""
    secret = add_secret(session, endpoint.id, seal, overlap=timedelta(hours=overlap_hours))
    record_about(session, AuditAction.WEBHOOK_SECRET_ROTATED, endpoint, {"overlap_hours": overlap_hours})
    return secret


def has_endpoints(session: Session) -> bool:
    """Return whether any organisation has an endpoint."""
    found = session.scalar(select(WebhookEndpoint.id).where(WebhookEndpoint.removed_at.is_(None)).limit(1))
    return found is not None


def get_endpoint(
    session: Session, webhook_id: str | UUID, caller: Caller | None, *, lock: bool = False
) -> WebhookEndpoint:
    """Return the endpoint, if the caller may see it, or any for an operator (None).

    Raise WebhookNotFoundError.
    """
    try:
        wanted = UUID(str(webhook_id))
    except ValueError:
        raise errors.WebhookNotFoundError(found=webhook_id) from None
    statement = select(WebhookEndpoint).where(WebhookEndpoint.id == wanted, *_are_seen_by(caller))
    endpoint = session.scalar(statement.with_for_update(key_share=True) if lock else statement)
    if endpoint is None:
        raise errors.WebhookNotFoundError(found=webhook_id)
    return endpoint


def list_endpoints(
    session: Session,
    caller: Caller | None,
    *,
    organisation_ids: Sequence[int] | None = None,
    endpoint_id: UUID | None = None,
) -> Sequence[WebhookEndpoint]:
    """Return the endpoints that the caller may see, or an operator (None) of these organisations or of all.

    The oldest is first.
    """
    conditions = _are_seen_by(caller)
    if organisation_ids is not None:
        conditions.append(WebhookEndpoint.organisation_id.in_(organisation_ids))
    if endpoint_id is not None:
        conditions.append(WebhookEndpoint.id == endpoint_id)
    rows = session.execute(
        select(WebhookEndpoint, Organisation.name)
        .join(Organisation, Organisation.id == WebhookEndpoint.organisation_id)
        .where(*conditions)
        .order_by(WebhookEndpoint.id)
        .execution_options(populate_existing=True)
    ).all()
    wanted = {it for endpoint, _ in rows for it in endpoint.import_supplier_ids or ()}
    found = session.execute(
        select(ImportSupplier.id, ImportSupplier.code).where(ImportSupplier.id.in_(wanted))
    )
    codes = {row.id: row.code for row in found}
    for endpoint, owner in rows:
        ids = endpoint.import_supplier_ids
        endpoint.organisation = owner
        endpoint.import_suppliers = None if ids is None else sorted(codes[it] for it in ids if it in codes)
    return [endpoint for endpoint, _ in rows]


def report_endpoint(session: Session, endpoint: WebhookEndpoint) -> WebhookEndpoint:
    """Return an endpoint as it is now, with the names that a response has."""
    session.flush()
    (report,) = list_endpoints(session, None, endpoint_id=endpoint.id)
    return report


def _are_seen_by(caller: Caller | None) -> list[Any]:
    """Return the conditions for endpoints of which the caller may see all events."""
    conditions: list[Any] = [WebhookEndpoint.removed_at.is_(None)]
    if caller is not None:
        conditions.append(WebhookEndpoint.organisation_id == caller.organisation_id)
    if (limits := _limits_of(caller)) is not None:
        conditions.append(WebhookEndpoint.import_supplier_ids.contained_by(limits))
    return conditions


def _limits_of(caller: Caller | None) -> list[int] | None:
    """Return the import suppliers of an endpoint that gets all events that the caller may see."""
    limits = caller.import_supplier_ids if caller else None
    return None if limits is None else sorted(limits)


def _set(
    session: Session,
    endpoint: WebhookEndpoint,
    rules: AddressRules,
    values: Mapping[str, Any],
    caller: Caller | None,
) -> None:
    found: list[errors.ServiceError] = []
    if "url" in values:
        try:
            rules.check_url(values["url"])
        except ValueError as error:
            found.append(errors.WebhookUrlError(str(error)))
    if "import_suppliers" in values:
        codes, owner = values["import_suppliers"], endpoint.organisation_id
        ids = _limits_of(caller) if codes is None else _find(session, codes, owner, found)
        endpoint.import_supplier_ids = ids
    errors.raise_all(found)
    for name in PLAIN & values.keys():
        setattr(endpoint, name, values[name])
    if "event_types" in values:
        endpoint.event_types = None if values["event_types"] is None else sorted(set(values["event_types"]))


def _find(
    session: Session, codes: Sequence[str], organisation_id: int, wrong: list[errors.ServiceError]
) -> list[int]:
    """Return the ids of these import suppliers. Add an error for each that there is not."""
    found = set()
    for place, code in enumerate(codes):
        supplier = find_import_supplier(session, code, organisation_id=organisation_id)
        if supplier is None:
            error = errors.ImportSupplierNotFoundInBodyError(found=code)
            error.errors = [replace(it, attr=f"import_suppliers.{place}") for it in error.errors]
            wrong.append(error)
        else:
            found.add(supplier.id)
    return sorted(found)


def _switch(endpoint: WebhookEndpoint, *, on: bool) -> None:
    endpoint.disabled_at = None if on else func.now()
    endpoint.disabled_reason = None if on else EndpointOff.PERSON
    if on:
        endpoint.failing_since = endpoint.last_failed_at = endpoint.held_until = None


def _audited(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {
        **{name: getattr(endpoint, name) for name in sorted(PLAIN - _NOT_AUDITED)},
        "url": show_url(endpoint.url),
        "event_types": endpoint.event_types,
        "import_supplier_ids": endpoint.import_supplier_ids,
        "enabled": endpoint.disabled_reason is None,
    }

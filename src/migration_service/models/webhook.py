"""Webhooks: the endpoints of organisations, their secrets, and the deliveries of events to them."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base, literals
from migration_service.models.operation import Organisation
from migration_service.states import DeliveryLane, DeliveryState, EndpointKind, EndpointOff, EventFormat


class WebhookEndpoint(Base):
    """A place to which the events of an organisation are sent.

    The trigger of `event` writes the deliveries. A removed endpoint is only marked, because a foreign key of
    its deliveries could fail the transaction that an event belongs to.
    """

    __tablename__ = "webhook_endpoint"
    __table_args__ = (
        CheckConstraint(f"kind IN ({literals(EndpointKind)})", name="kind"),
        CheckConstraint(f"format IN ({literals(EventFormat)})", name="format"),
        CheckConstraint(f"disabled_reason IN ({literals(EndpointOff)})", name="disabled_reason"),
        CheckConstraint("(disabled_at IS NULL) = (disabled_reason IS NULL)", name="disabled"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id), index=True)
    kind: Mapped[str] = mapped_column(server_default=EndpointKind.URL)
    url: Mapped[str]
    description: Mapped[str] = mapped_column(server_default="")
    #: The types of events that are sent, or None for all, including future ones.
    event_types: Mapped[list[str] | None]
    #: The import suppliers whose events are sent, or None for all events of the organisation.
    import_supplier_ids: Mapped[list[int] | None] = mapped_column(ARRAY(BigInteger))
    format: Mapped[str] = mapped_column(server_default=EventFormat.STANDARD)
    #: Whether each event is only sent after the one before it in the feed.
    is_ordered: Mapped[bool] = mapped_column(server_default=false())
    #: The address of the person who is told if it is switched off.
    email: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When and why it was switched off, or None while it is on.
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None]
    #: The first and last failed attempts since the last success. Both are None while it works.
    failing_since: Mapped[datetime | None]
    last_failed_at: Mapped[datetime | None]
    #: Nothing is sent until then, because it has asked for a pause.
    held_until: Mapped[datetime | None]
    #: Until when a worker sends its events in order.
    leased_until: Mapped[datetime | None]
    removed_at: Mapped[datetime | None]
    #: The user and password of a queue, as `user:password`, encrypted like secrets.
    credentials: Mapped[str | None]


class WebhookSecret(Base):
    """A secret that signs what is sent to an endpoint. After a rotation there are two for some time."""

    __tablename__ = "webhook_secret"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    endpoint_id: Mapped[UUID] = mapped_column(ForeignKey(WebhookEndpoint.id), index=True)
    #: The secret, encrypted if the settings have a key.
    sealed: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When it is no longer used, or None for the current one.
    expires_at: Mapped[datetime | None]


class WebhookDelivery(Base):
    """An event that is sent, or was sent, to an endpoint."""

    __tablename__ = "webhook_delivery"
    __table_args__ = (
        CheckConstraint(f"state IN ({literals(DeliveryState)})", name="state"),
        CheckConstraint(f"lane IN ({literals(DeliveryLane)})", name="lane"),
        CheckConstraint(f"(state = '{DeliveryState.PENDING}') = (settled_at IS NULL)", name="settled_at"),
        Index("ix_webhook_delivery_endpoint_id_id", "endpoint_id", "id"),
        Index(
            "ix_webhook_delivery_due",
            *("endpoint_id", "lane", "next_attempt_at"),
            postgresql_where=text(f"state = '{DeliveryState.PENDING}'"),
        ),
        Index(
            "ix_webhook_delivery_undelivered",
            *("endpoint_id", "id"),
            postgresql_where=text(f"state <> '{DeliveryState.DELIVERED}'"),
        ),
        Index(
            "ix_webhook_delivery_ordered",
            *("endpoint_id", "id"),
            postgresql_where=text(f"state = '{DeliveryState.PENDING}' AND lane = '{DeliveryLane.ORDERED}'"),
        ),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    endpoint_id: Mapped[UUID]
    event_id: Mapped[UUID]
    event_type: Mapped[str]
    #: The message, as the feed shows the event. A copy, because the event may be removed first.
    body: Mapped[str]
    lane: Mapped[str] = mapped_column(server_default=DeliveryLane.LIVE)
    state: Mapped[str] = mapped_column(server_default=DeliveryState.PENDING)
    #: The number of attempts whose outcome is known.
    attempts: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    #: When it is due. A worker that takes it postpones it, in case that worker dies.
    next_attempt_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    settled_at: Mapped[datetime | None]


class WebhookAttempt(Base):
    """An attempt to deliver an event. It has no foreign key, because hundreds a second are inserted."""

    __tablename__ = "webhook_attempt"

    delivery_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    #: When it began, and how long it took.
    at: Mapped[datetime]
    milliseconds: Mapped[int] = mapped_column(Integer)
    #: The status of the answer, or None if there was none.
    status: Mapped[int | None] = mapped_column(SmallInteger)
    #: The code of the failure, a DeliveryFailure, or None if the event was delivered.
    error: Mapped[str | None]
    #: The first bytes of the answer.
    answer: Mapped[str]

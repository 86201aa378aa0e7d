"""Webhooks: the endpoints of organisations, their secrets, and the deliveries of events to them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Identity,
    Integer,
    SmallInteger,
    false,
    func,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.operation import ApiKey, Organisation
from migration_service.states import DeliveryState


class WebhookEndpoint(Base):
    """A place to which the events of an organisation are sent.

    The trigger of `event` writes the deliveries. A removed endpoint is only marked, because a foreign key of
    its deliveries could fail the transaction that an event belongs to.
    """

    __tablename__ = "webhook_endpoint"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    url: Mapped[str]
    description: Mapped[str] = mapped_column(server_default="")
    #: The types of events that are sent, or None for all, including future ones.
    event_types: Mapped[list[str] | None]
    #: The import suppliers whose events are sent, or None for all events of the organisation.
    import_supplier_ids: Mapped[list[int] | None] = mapped_column(ARRAY(BigInteger))
    #: The address of the person who is told if it is switched off. Only operators set it.
    email: Mapped[str | None]
    #: The key that created it, or None if an operator did.
    api_key_id: Mapped[int | None] = mapped_column(ForeignKey(ApiKey.id))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When and why it was switched off, or None while it is on.
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None]
    #: The first and last failed attempts since the last success. Both are None while it works.
    failing_since: Mapped[datetime | None]
    last_failed_at: Mapped[datetime | None]
    #: Nothing is sent until then, because it has asked for a pause.
    held_until: Mapped[datetime | None]
    removed_at: Mapped[datetime | None]

    # What a response has beside the columns: the names of its organisation and suppliers, which
    # `services.webhooks.endpoints.list_endpoints` looks up.
    __allow_unmapped__ = True
    organisation: str = ""
    import_suppliers: list[str] | None = None

    @property
    def enabled(self) -> bool:
        """Whether events are sent."""
        return self.disabled_at is None


class WebhookSecret(Base):
    """A secret that signs what is sent to an endpoint. After a rotation there are two for some time.

    It is removed with its endpoint.
    """

    __tablename__ = "webhook_secret"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    endpoint_id: Mapped[UUID] = mapped_column(ForeignKey(WebhookEndpoint.id))
    #: The secret, encrypted if the settings have a key.
    sealed: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When it is no longer used, or None for the current one.
    expires_at: Mapped[datetime | None]


class WebhookDelivery(Base):
    """An event that is sent, or was sent, to an endpoint.

    It refers to the event, whose text is made when it is sent. There are no foreign keys, because a delivery
    is written beside every account.
    """

    __tablename__ = "webhook_delivery"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    organisation_id: Mapped[int]
    endpoint_id: Mapped[UUID]
    #: The event, with the rest of its key: all None for a test, which is not in the feed.
    generation: Mapped[int | None] = mapped_column(SmallInteger)
    transaction_id: Mapped[int | None]
    event_id: Mapped[UUID]
    event_type: Mapped[str]
    #: Whether it was asked for: an event again, or a test. Also sent while the endpoint is switched off.
    is_replay: Mapped[bool] = mapped_column(server_default=false())
    state: Mapped[str] = mapped_column(server_default=DeliveryState.PENDING)
    #: The number of attempts whose outcome is known.
    attempts: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    #: When it is due. A worker that takes it postpones it, in case that worker dies.
    next_attempt_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    settled_at: Mapped[datetime | None]

    # The attempts that a response has, which `services.webhooks.deliveries` looks up.
    __allow_unmapped__ = True
    attempt_list: Sequence["WebhookAttempt"] = ()

    @property
    def next_attempt(self) -> datetime | None:
        """When it is sent next, or None if it has ended."""
        return self.next_attempt_at if self.state == DeliveryState.PENDING else None


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

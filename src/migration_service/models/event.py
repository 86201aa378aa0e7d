"""The outbox of events: what suppliers are told, written in the transaction that causes it."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Identity, SmallInteger, func, text
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base


class Event(Base):
    """Something that happened, for the organisation that it concerns.

    The order of the feed is the only index, and there are no foreign keys: an event is written beside every
    account, and outlives what it is about.
    """

    __tablename__ = "event"

    organisation_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    #: 0 for events of this database. Those that a dump brought along are below, because another server has
    #: numbered their transactions (`services.events.history`).
    generation: Mapped[int] = mapped_column(SmallInteger, primary_key=True, server_default=text("0"))
    #: The transaction that wrote it. It can be read once no transaction with this or a lower number runs.
    transaction_id: Mapped[int] = mapped_column(
        primary_key=True,
        autoincrement=False,
        server_default=text("CAST(pg_current_xact_id() AS text)::bigint"),
    )
    #: Its public id, which a restored database does not use again.
    id: Mapped[UUID] = mapped_column(primary_key=True, server_default=func.gen_random_uuid())
    import_supplier_id: Mapped[int | None]
    #: An EventType.
    type: Mapped[str]
    #: Ids, numbers, codes and counts, never personal data. `schemas.events` describes it for each type.
    data: Mapped[dict[str, Any]]
    #: The start of its transaction, which may be long before its commit.
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class EventHistory(Base):
    """A history of the database: its server and timeline.

    A restore begins another one, and so does a server that takes over.
    """

    __tablename__ = "event_history"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    system_identifier: Mapped[int]
    timeline: Mapped[int]
    #: Whether a dump brought the events before it along, so that they are a generation of their own.
    is_restored: Mapped[bool]
    #: A transaction number that the history has reached for certain.
    reached_transaction_id: Mapped[int]
    #: The transaction that wrote this row, which a dump does not keep as that of the row.
    written_by: Mapped[int] = mapped_column(server_default=text("CAST(pg_current_xact_id() AS text)::bigint"))
    #: What signs cursors. A history has that of the one before it, so that older cursors remain valid.
    cursor_key: Mapped[bytes] = mapped_column(server_default=text("uuid_send(gen_random_uuid())"))
    noticed_at: Mapped[datetime] = mapped_column(server_default=func.now())


class EventConsumer(Base):
    """A reader of an organisation's events whose position the service keeps."""

    __tablename__ = "event_consumer"

    organisation_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(primary_key=True)
    #: The position of the last event that it has acknowledged. All null before the first.
    generation: Mapped[int | None] = mapped_column(SmallInteger)
    transaction_id: Mapped[int | None]
    event_id: Mapped[UUID | None]
    #: When it last asked for events.
    asked_at: Mapped[datetime] = mapped_column(server_default=func.now())

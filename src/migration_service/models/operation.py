"""The setup by operators: organisations and their keys, import suppliers, operations teams, the limit."""

from datetime import datetime

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ForeignKey,
    Identity,
    LargeBinary,
    SmallInteger,
    UniqueConstraint,
    false,
    func,
)
from sqlalchemy.orm import Mapped, mapped_column

from migration_payloads.profile import Profile
from migration_service.db.base import Base
from migration_service.states import EmailMoment, SupplierStatus


class Organisation(Base):
    """An owner of API keys and import suppliers, isolated from other organisations."""

    __tablename__ = "organisation"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ApiKey(Base):
    """A key for obtaining tokens. Only its hash is stored. The prefix identifies it."""

    __tablename__ = "api_key"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    prefix: Mapped[str] = mapped_column(unique=True)
    #: SHA-256 of the key. The key has 256 random bits, so a slow hash would add nothing.
    key_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    #: The name for people, or None for keys issued before keys had names.
    name: Mapped[str | None]
    #: The scopes of the key, or None for every scope, including future ones.
    scopes: Mapped[list[str] | None]
    #: The import suppliers that the key is limited to, or None for all of the organisation.
    import_supplier_ids: Mapped[list[int] | None] = mapped_column(ARRAY(BigInteger))
    #: The networks from which it may be used, such as `192.0.2.0/24`, or None for any.
    allowed_networks: Mapped[list[str] | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When it expires, or None for never.
    expires_at: Mapped[datetime | None]
    #: How many days before it expires that was last told, or None if it was not.
    expiry_told: Mapped[int | None] = mapped_column(SmallInteger)
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class ImportSupplier(Base):
    """A group of migrated accounts, with the settings of their migration (section 2.2)."""

    __tablename__ = "import_supplier"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    code: Mapped[str] = mapped_column(unique=True)
    status: Mapped[str] = mapped_column(server_default=SupplierStatus.ONGOING)
    #: The root of document paths: `<storage bucket>/<configured root>`, without a slash at the end.
    document_root: Mapped[str] = mapped_column(server_default="")
    profile: Mapped[str] = mapped_column(server_default=Profile.LENIENT)
    #: The time zone that determines today's date, for open periods and for dates in the future.
    time_zone: Mapped[str] = mapped_column(server_default="Europe/Amsterdam")
    #: Whether customers get an e-mail about their created account, and when.
    sends_customer_emails: Mapped[bool] = mapped_column(server_default=false())
    emails_at: Mapped[str] = mapped_column(server_default=EmailMoment.AT_GO_LIVE)
    #: The moment of AT_MOMENT.
    emails_from: Mapped[datetime | None]
    #: When all its accounts go live, after which none of them can be undone, and the person who decided.
    live_at: Mapped[datetime | None]
    live_by: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class OperationsTeam(Base):
    """A team to which created accounts are linked. It must exist before a request names it."""

    __tablename__ = "operations_team"
    __table_args__ = (UniqueConstraint("organisation_id", "name"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    #: The organisation that may name it, or None if every organisation may.
    organisation_id: Mapped[int | None] = mapped_column(ForeignKey(Organisation.id))
    name: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Backup(Base):
    """When the last backup was taken, in one row, as whoever takes backups says."""

    __tablename__ = "backup"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    taken_at: Mapped[datetime]


class ServiceLimit(Base):
    """The concurrency limit (section 8), in one row. Operators can change it while the service is running."""

    __tablename__ = "service_limit"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    #: The largest number of accounts processed simultaneously, or None for no limit.
    concurrency_limit: Mapped[int | None]

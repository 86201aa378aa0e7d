"""Sessions of API keys, their refresh tokens, and the people who operate the service."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Identity, LargeBinary, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.operation import ApiKey, Organisation


class TokenSession(Base):
    """What begins when an API key is exchanged for tokens: all tokens refreshed from those belong to it."""

    __tablename__ = "token_session"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    api_key_id: Mapped[int] = mapped_column(ForeignKey(ApiKey.id), index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When its last refresh token expires.
    expires_at: Mapped[datetime] = mapped_column(index=True)
    #: When it was ended before that, and why.
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None]
    #: The request that began it, and the address that it came from.
    request_id: Mapped[str | None]
    address: Mapped[str | None]


class RefreshToken(Base):
    """A refresh token by its id, and the one that it was exchanged for."""

    __tablename__ = "refresh_token"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    token_session_id: Mapped[UUID] = mapped_column(
        ForeignKey(TokenSession.id, ondelete="CASCADE"), index=True
    )
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When it was exchanged, and for which token; None: it was not.
    used_at: Mapped[datetime | None]
    successor_id: Mapped[UUID | None]


class Operator(Base):
    """A person who operates the service."""

    __tablename__ = "operator"
    __table_args__ = (CheckConstraint("role IN ('read', 'operate', 'administer')", name="role"),)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]
    #: Argon2id, with its parameters; None: the operator cannot log in yet.
    password_hash: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    last_login_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]


class OperatorOrganisation(Base):
    """An organisation that an operator is bound to; an operator without any sees all organisations."""

    __tablename__ = "operator_organisation"

    operator_id: Mapped[int] = mapped_column(ForeignKey(Operator.id, ondelete="CASCADE"), primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id), primary_key=True)


class OperatorSession(Base):
    """What begins when an operator logs in to the console, and ends when they log out or are locked out."""

    __tablename__ = "operator_session"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    operator_id: Mapped[int] = mapped_column(ForeignKey(Operator.id, ondelete="CASCADE"), index=True)
    #: SHA-256 of the token in the browser's cookie. The token has 256 random bits.
    token_sha256: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now(), index=True)
    #: When the operator last did something. What the page does by itself does not count.
    last_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When it was ended, and why.
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None]
    address: Mapped[str | None]


class OperatorForm(Base):
    """A form of the console that was sent, so that sending it twice does once what it says."""

    __tablename__ = "operator_form"

    token: Mapped[UUID] = mapped_column(primary_key=True)
    operator_session_id: Mapped[UUID] = mapped_column(
        ForeignKey(OperatorSession.id, ondelete="CASCADE"), index=True
    )
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: The sentence that says what was done, and the address of the page that shows it.
    message: Mapped[str]
    location: Mapped[str]

"""Sessions of API keys, their refresh tokens, and the people who operate the service."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Identity, LargeBinary, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.operation import ApiKey, Organisation


class TokenSession(Base):
    """A session of an API key: the tokens it was exchanged for, and all tokens refreshed from these."""

    __tablename__ = "token_session"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    api_key_id: Mapped[int] = mapped_column(ForeignKey(ApiKey.id))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When its last refresh token expires.
    expires_at: Mapped[datetime]
    #: When and why it was ended before that.
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None]
    #: The request that started it, and the client's address.
    request_id: Mapped[str | None]
    address: Mapped[str | None]


class RefreshToken(Base):
    """The id of a refresh token, and of the token that it was exchanged for."""

    __tablename__ = "refresh_token"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    token_session_id: Mapped[UUID] = mapped_column(ForeignKey(TokenSession.id, ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When the token was exchanged, and for which one. None if it has not been exchanged.
    used_at: Mapped[datetime | None]
    successor_id: Mapped[UUID | None]


class Operator(Base):
    """A person who operates the service."""

    __tablename__ = "operator"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]
    #: An Argon2id hash with its parameters, or None if the operator cannot log in yet.
    password_hash: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    last_login_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]


class OperatorOrganisation(Base):
    """An organisation that an operator is limited to. An operator without any sees all organisations."""

    __tablename__ = "operator_organisation"

    operator_id: Mapped[int] = mapped_column(ForeignKey(Operator.id, ondelete="CASCADE"), primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id), primary_key=True)


class OperatorSession(Base):
    """A session of an operator in the console, from the login until a logout or lock-out."""

    __tablename__ = "operator_session"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    operator_id: Mapped[int] = mapped_column(ForeignKey(Operator.id, ondelete="CASCADE"))
    #: SHA-256 of the token in the browser's cookie. The token has 256 random bits.
    token_sha256: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When the operator was last active. Automatic requests of a page do not count.
    last_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: When and why it was ended.
    ended_at: Mapped[datetime | None]
    end_reason: Mapped[str | None]
    address: Mapped[str | None]

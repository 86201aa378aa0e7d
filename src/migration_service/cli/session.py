"""Connections of commands, and their exit statuses: 0 done, 1 refused, 2 could not run."""

import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import click
import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, ProgrammingError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings, SettingsError, system_user
from migration_service.db import known_commits
from migration_service.db.engine import make_sessionmaker, parse_database_url, service_engine
from migration_service.db.holding import repeat
from migration_service.db.known_commits import KnownCommit
from migration_service.db.reference import wait_until_known
from migration_service.errors import RequestFailedValidationError, ServiceError
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.setup.names import find_removed


class RefusedError(click.ClickException):
    """The service refuses the command: exit status 1."""

    exit_code = 1


class CannotRunError(click.ClickException):
    """A setting is missing, or a server cannot be reached: exit status 2."""

    exit_code = 2


class CommandConnection(KnownCommit):
    """A connection whose commits have a time limit. PostgreSQL limits only the time of statements."""

    commit_seconds = 30.0
    _limit: float | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for the server, during a commit no longer than allowed."""
        return super().wait(gen, *args, **{"timeout": self._limit, **options})

    def commit(self) -> None:
        """Commit. Raise CannotRunError if that takes too long, as without the synchronous standby."""
        self._limit = self.commit_seconds
        try:
            super().commit()
        except psycopg.OperationalError as error:
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                raise
            self.close()
            raise CannotRunError(
                f"The database did not commit within {self.commit_seconds:g} seconds. What the command was "
                "to change may be done: look before you repeat it. The doctor names the cause."
            ) from error
        finally:
            self._limit = None


def read_settings(*, without: Collection[str] = ()) -> Settings:
    """Return the settings of this command. Raise CannotRunError naming what is missing.

    `without` names settings that the command has no use for.
    """
    try:
        return Settings.from_env(without=without)
    except SettingsError as error:
        raise CannotRunError(str(error)) from error


@contextmanager
def open_session(settings: Settings) -> Iterator[Session]:
    """Open the transaction of a command. Commit it at the end, or roll it back if the command is refused.

    Raise RefusedError with the reason of a ServiceError, and CannotRunError if the database cannot be used.
    """
    with open_sessions(settings) as sessions, sessions.begin() as session:
        yield session


@contextmanager
def open_session_of_reference(settings: Settings) -> Iterator[Session]:
    """Open the transaction of a command that changes an API key, a session or an import supplier.

    Like `open_session`, but wait after the commit until every web process knows of the change.
    """
    with open_session(settings) as session:
        yield session
    wait_until_known()


@contextmanager
def open_sessions(settings: Settings, *, connections: int = 1) -> Iterator[sessionmaker[Session]]:
    """Open sessions for a command with several transactions. Raise the errors that `open_session` raises.

    Up to `connections` of them can be open at the same time.
    """
    try:
        engine = service_engine(
            settings, "migration-command", pool_size=connections, max_overflow=0, kind=CommandConnection
        )
    except (ArgumentError, ValueError) as error:
        raise CannotRunError(
            "DATABASE_URL is not an address. Expected: postgresql://user:password@host:port/name"
        ) from error
    try:
        sessions = make_sessionmaker(engine)
        repeat(sessions, lambda: engine.connect().close())  # wait for a server
        with acting_as(_origin()):
            yield sessions
    except ServiceError as error:
        raise RefusedError(_reasons(error)) from error
    except IntegrityError as error:
        removed = find_removed(error, in_path=True)
        if removed is None:
            raise
        raise RefusedError(_reasons(removed)) from error
    except OperationalError as error:
        raise CannotRunError(f"The database {_place(settings)} {_reason(error)}") from error
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) != "42P01":  # undefined_table
            raise
        raise CannotRunError(
            f"The database {_place(settings)} does not have the service's tables. "
            "Create them: migration-service revisions upgrade"
        ) from error
    finally:
        engine.dispose()


def _reasons(error: ServiceError) -> str:
    """Return what is wrong. A failed validation may have several errors, each with a code."""
    if isinstance(error, RequestFailedValidationError):
        return "\n".join(f"{item.detail} ({item.code} at {item.attr})" for item in error.errors)
    return error.detail


def _origin() -> Origin:
    """Return who runs this command: the account on this machine and, with sudo, the person behind it."""
    return Origin(
        kind=ActorKind.SYSTEM_USER,
        actor=system_user(),
        address=socket.gethostname(),
        request_id=f"command {uuid4().hex}",
    )


def _place(settings: Settings) -> str:
    url = parse_database_url(settings.database_url)
    hosts = url.normalized_query.get("host") or [f"{url.host or 'localhost'}:{url.port or 5432}"]
    return f"{url.database!r} at {', '.join(hosts)}"


def _reason(error: OperationalError) -> str:
    if getattr(error.orig, "sqlstate", None):
        return f"reports: {str(error.orig).splitlines()[0]}"
    said = str(error.orig).strip().splitlines()
    cause = said[0] if said else "no answer"
    seconds = known_commits.HOLD_SECONDS
    return f"cannot be reached, or not be written to, for {seconds:g} seconds: {cause}"

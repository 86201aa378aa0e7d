"""Refused logins, tokens and requests, which are counted, logged and recorded in the audit.

The audit gets one entry for each kind, address and minute, up to a limit of entries per minute, so a flood of
refusals overloads neither the table nor the database. The metric counts every refusal.
"""

import logging
import threading
import time
from collections.abc import Callable
from enum import StrEnum

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.db.sql import autocommit
from migration_service.metrics.process import SECURITY_EVENTS
from migration_service.origin import current_origin
from migration_service.services.access.sessions import REUSED, end_session
from migration_service.services.access.throttle import client_of
from migration_service.services.audit.entries import AuditAction
from migration_service.states import AuditOutcome

logger = logging.getLogger(__name__)

#: The largest number of entries in a minute, for all addresses together.
MOST_A_MINUTE = 200


class SecurityEvent(StrEnum):
    """The name of a refusal in the metric and the log."""

    #: A key, a refresh token or a password that is not valid, or a person whom the identity provider knows.
    FAILED_LOGIN = "failed_login"
    #: An attempt that was refused unseen, because too many before it had failed.
    THROTTLED_LOGIN = "throttled_login"
    #: An access token that is not valid.
    REFUSED_TOKEN = "refused_token"  # noqa: S105
    #: A key that was revoked, or a token of one.
    REVOKED_KEY_USED = "revoked_key_used"
    #: A refresh token that had already been exchanged.
    REFRESH_TOKEN_REUSED = "refresh_token_reused"  # noqa: S105
    #: A valid key without the necessary permission.
    PERMISSION_DENIED = "permission_denied"


# Initialised to zero, so that an alert notices the first refusal.
for _event_name in SecurityEvent:
    SECURITY_EVENTS.labels(_event_name.value)

_RECORD = f"""
    INSERT INTO audit_entry
        (actor_kind, actor, organisation_id, address, request_id, action, outcome, code, once)
    SELECT %(kind)s, %(actor)s, %(organisation_id)s::bigint, %(address)s, %(request_id)s, %(action)s,
           '{AuditOutcome.REFUSED}', %(event)s,
           %(once)s || ' ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')
    WHERE (SELECT count(*) FROM audit_entry
           WHERE at >= date_trunc('minute', clock_timestamp())
             AND outcome = '{AuditOutcome.REFUSED}') < %(most)s
    ON CONFLICT (once) WHERE once IS NOT NULL DO NOTHING
    RETURNING id
"""


class RefusalLog:
    """The recorder of refusals in a web process. It never fails: what was refused stays refused."""

    def __init__(self, sessions: sessionmaker[Session], clock: Callable[[], float] = time.time) -> None:
        self._sessions = sessions
        self._clock = clock
        self._lock = threading.Lock()
        self._minute = 0
        #: The entries that this process has written in this minute, to avoid asking the database again.
        self._written: set[str] = set()

    def note_refused_login(self, error: errors.ServiceError, prefix: str | None) -> None:
        """Record the refusal of a login, an API key (with this prefix, if it had one) or a refresh token.

        A refresh token that was already used ends its session.
        """
        if isinstance(error, errors.RefreshTokenReusedError) and error.session_id:
            with self._sessions.begin() as session:
                end_session(session, str(error.session_id), REUSED)
        self._note(_event(error, SecurityEvent.FAILED_LOGIN), AuditAction.LOGIN_REFUSED, prefix)

    def note_refused_request(self, error: errors.ServiceError) -> None:
        """Record the refusal of a request because of its token or the permissions of its key."""
        event = _event(error, SecurityEvent.REFUSED_TOKEN)
        denied = event is SecurityEvent.PERMISSION_DENIED
        self._note(event, AuditAction.PERMISSION_REFUSED if denied else AuditAction.TOKEN_REFUSED, None)

    def _note(self, event: SecurityEvent, action: AuditAction, prefix: str | None) -> None:
        origin = current_origin()
        SECURITY_EVENTS.labels(event.value).inc()
        logger.warning(
            "Security event: %s from %s",
            event.value,
            origin.address,
            extra={
                "security_event": event.value,
                "address": origin.address,
                "api_key": origin.actor or prefix,
            },
        )
        once = f"{event} {client_of(origin.address)}"
        if not self._is_new(once):
            return
        values = {
            "kind": origin.kind,
            "actor": origin.actor or prefix,
            "organisation_id": origin.organisation_id,
            "address": origin.address,
            "request_id": origin.request_id,
            "action": action,
            "event": event,
            "once": once,
            "most": MOST_A_MINUTE,
        }
        try:
            with autocommit(self._sessions) as connection:
                connection.execute(_RECORD, values)
        except SQLAlchemyError as error:
            logger.error("A refusal is missing in the audit: %s", type(error).__name__)

    def _is_new(self, once: str) -> bool:
        minute = int(self._clock() // 60)
        with self._lock:
            if minute != self._minute:
                self._minute, self._written = minute, set()
            if once in self._written or len(self._written) >= MOST_A_MINUTE:
                return False
            self._written.add(once)
            return True


def _event(error: errors.ServiceError, otherwise: SecurityEvent) -> SecurityEvent:
    match error:
        case errors.ApiKeyRevokedError():
            return SecurityEvent.REVOKED_KEY_USED
        case errors.RefreshTokenReusedError():
            return SecurityEvent.REFRESH_TOKEN_REUSED
        case errors.ThrottledError():
            return SecurityEvent.THROTTLED_LOGIN
        case errors.PermissionDeniedError():
            return SecurityEvent.PERMISSION_DENIED
    return otherwise

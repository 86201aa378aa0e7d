"""The query string and responses of the endpoints for sessions."""

from migration_payloads.schemas.base import AnswerSchema, Fields
from migration_service.schemas import answers
from migration_service.schemas.paging import Cursor, page_limit

_SESSION_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"


class SessionListArgumentsSchema(Fields):
    """The query string of the list of sessions."""

    limit = page_limit("sessions")
    cursor = Cursor(_SESSION_ID, max_length=128)


class SessionAnswerSchema(AnswerSchema):
    """A session, which starts when an API key is exchanged for tokens."""

    session_id = answers.UUID("The id of the session. Its tokens have it as their claim sid.", _SESSION_ID)
    api_key = answers.String("The prefix of the API key.", "ami_0123456789")
    api_key_name = answers.String(
        "The name of the API key, if it has one.", "nightly import", allow_none=True
    )
    address = answers.String("The address that started it.", "192.0.2.7", allow_none=True)
    created_at = answers.Moment("When it started.", "2026-03-01T10:15:00Z")
    expires_at = answers.Moment("When its last refresh token expires.", "2026-03-08T10:15:00Z")
    ended_at = answers.Moment("When it was ended. Null if it has not been ended.", None, allow_none=True)

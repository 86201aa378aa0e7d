"""The query string and responses of the endpoints for sessions."""

from marshmallow import fields

from migration_service.schemas.base import AnswerSchema, Fields
from migration_service.schemas.fields import AnsweredMoment, Identifier, WholeNumber, about

_SESSION_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"


class SessionListArgumentsSchema(Fields):
    """The query string of the list of sessions."""

    limit = WholeNumber(
        load_default=50,
        metadata=about(
            "At most this many sessions, 1 to 500. The Link header leads to the next page.",
            50,
            schema={"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        ),
    )
    cursor = Identifier(metadata=about("Where the page starts, taken from the Link header.", _SESSION_ID))


class SessionAnswerSchema(AnswerSchema):
    """A session, which starts when an API key is exchanged for tokens."""

    session_id = fields.UUID(
        metadata=about("The id of the session. Its tokens have it as their claim sid.", _SESSION_ID)
    )
    api_key = fields.String(metadata=about("The prefix of the API key.", "ami_0123456789"))
    api_key_name = fields.String(
        allow_none=True, metadata=about("The name of the API key, if it has one.", "nightly import")
    )
    address = fields.String(allow_none=True, metadata=about("The address that started it.", "192.0.2.7"))
    created_at = AnsweredMoment(metadata=about("When it started.", "2026-03-01T10:15:00Z"))
    expires_at = AnsweredMoment(
        metadata=about("When its last refresh token expires.", "2026-03-08T10:15:00Z")
    )
    ended_at = AnsweredMoment(
        allow_none=True, metadata=about("When it was ended. Null if it has not been ended.", None)
    )

"""The organisation's sessions, which show who holds tokens. Each one can be ended."""

from typing import Any

from flask import Response

from migration_payloads.schemas.base import AnswerSchema
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.resources import resources
from migration_service.db.reference import wait_until_known
from migration_service.errors import TokenSessionNotFoundError
from migration_service.schemas import answers
from migration_service.schemas.paging import page_arguments
from migration_service.services.access import sessions

_SESSION_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"


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


_SCHEMA = SessionAnswerSchema()

blueprint = make_blueprint("sessions", "sessions", "See who holds tokens, and end single sessions.")

_EXAMPLE = SessionAnswerSchema.example()


@blueprint.get("/")
@query_arguments(page_arguments("sessions"))
@blueprint.response(200, SessionAnswerSchema(many=True), headers=refer("Link"))
@answers_errors()
def list_sessions(arguments: dict[str, Any]) -> Response:
    """List the organisation's active sessions, newest first

    The sessions of all its API keys. The response is one page. A Link header (rel="next") leads to the next
    one.
    """
    listing = Listing.read(arguments)
    with resources().Session.begin() as session:
        found = sessions.list_sessions_of_organisation(
            session, caller().organisation_id, before=listing.after, limit=listing.wanted
        )
    return listing.answer(found, "session_id", _SCHEMA.dump)


@blueprint.post("/<session_id>/end/", endpoint="end_session")
@blueprint.response(200, SessionAnswerSchema, example=_EXAMPLE | {"ended_at": "2026-03-02T08:00:00Z"})
@answers_errors(TokenSessionNotFoundError)
def end_one_session(session_id: str) -> dict[str, Any]:
    """End a session and revoke its tokens

    The response takes about a second. After it, none of the session's tokens is accepted. The API key stays
    valid. Ending a session again changes nothing.
    """
    with resources().Session.begin() as session:
        ended = sessions.end_session(
            session, session_id, sessions.ENDED_BY_ORGANISATION, organisation_id=caller().organisation_id
        )
        report = sessions.report_session(session, ended)
    wait_until_known()
    return report

"""Who sends a request: the token in its Authorization header (section 5)."""

import re
from typing import cast

from flask import g, request

from migration_service.blueprints.resources import resources
from migration_service.db.statements import autocommit
from migration_service.errors import NotAuthenticatedError, UnauthenticatedError
from migration_service.services.access.tokens import Caller, authenticate_token

_SCHEMES = ("token", "bearer", "jwt")
_BLANKS = re.compile(r"[ \t]+")


def require_token() -> None:
    """For `Blueprint.before_request`: let only requests with a valid access token through.

    Raises NotAuthenticatedError and UnauthenticatedError (401). OPTIONS needs no token: Flask answers it
    with the methods of the path and calls no view.
    """
    if request.method == "OPTIONS":
        return
    shared = resources()
    token = read_token(request.headers.get("Authorization", ""))
    with autocommit(shared.Session) as statements:
        g.caller = authenticate_token(statements, shared.settings, token)


def caller() -> Caller:
    """Who sends the current request. Only for views behind `require_token`."""
    return cast(Caller, g.caller)


def read_token(header: str) -> str:
    """The token in an Authorization header: bare, or after the word Token, Bearer or JWT.

    Raises NotAuthenticatedError where there is none, UnauthenticatedError for any other form.
    """
    words = [word for word in _BLANKS.split(header) if word]
    if words and words[0].lower() in _SCHEMES:
        words = words[1:]
    if not words:
        raise NotAuthenticatedError
    if len(words) > 1:
        raise UnauthenticatedError("The Authorization header must be: Token <token>.")
    return words[0]

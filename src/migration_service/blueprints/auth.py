"""Authentication: the token in the Authorization header of a request (section 5)."""

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
    """Raise NotAuthenticatedError or UnauthenticatedError (401) if the request has no valid access token.

    For `Blueprint.before_request`. OPTIONS needs no token, because Flask answers it with the methods of the
    path and calls no view.
    """
    if request.method == "OPTIONS":
        return
    shared = resources()
    token = read_token(request.headers.get("Authorization", ""))
    with autocommit(shared.Session) as statements:
        g.caller = authenticate_token(statements, shared.settings, token)


def caller() -> Caller:
    """Return the sender of the current request. Only for views with `require_token`."""
    return cast(Caller, g.caller)


def read_token(header: str) -> str:
    """Return the token in an Authorization header: bare, or after the word Token, Bearer or JWT.

    Raise NotAuthenticatedError if the header is empty, and UnauthenticatedError if it has any other form.
    """
    words = [word for word in _BLANKS.split(header) if word]
    if words and words[0].lower() in _SCHEMES:
        words = words[1:]
    if not words:
        raise NotAuthenticatedError
    if len(words) > 1:
        raise UnauthenticatedError("The Authorization header must be: Token <token>.")
    return words[0]

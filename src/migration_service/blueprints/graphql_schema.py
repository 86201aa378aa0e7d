"""The GraphQL schema for obtaining tokens (section 5)."""

from typing import Any

from flask import request
from graphql import (
    GraphQLArgument,
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLString,
)

from migration_service import errors
from migration_service.blueprints.requests.resources import resources
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.access.throttle import client_of
from migration_service.services.access.tokens import Tokens, obtain_tokens, refresh_tokens


def obtain(_root: Any, _info: Any, **arguments: Any) -> Tokens:
    """Resolve the mutation.

    Raise InvalidError, UnauthenticatedError, PermissionDeniedError or ThrottledError.
    """
    api_key, refresh_token = (arguments["input"].get(name) for name in ("APIKey", "refreshToken"))
    if (api_key is None) == (refresh_token is None):
        raise errors.InvalidError("Give either an APIKey or a refreshToken.")
    shared, client = resources(), client_of(request.remote_addr)
    try:
        shared.throttle.check(client)
        with shared.Session.begin() as session:
            if api_key is not None:
                return obtain_tokens(session, shared.settings, api_key)
            return refresh_tokens(session, shared.settings, refresh_token)
    except (errors.UnauthenticatedError, errors.PermissionDeniedError, errors.ThrottledError) as error:
        shared.refusals.note_refused_login(error, find_prefix(api_key or ""))
        if isinstance(error, errors.UnauthenticatedError):
            shared.throttle.count_failure(client)
        raise


_INPUT = GraphQLInputObjectType(
    "ObtainServiceTokenInput",
    {
        "APIKey": GraphQLInputField(
            GraphQLString, description="The organisation's API key, which the service operator issues."
        ),
        "refreshToken": GraphQLInputField(
            GraphQLString, description="A refresh token that was obtained with the API key."
        ),
    },
    description="Either an API key or a refresh token.",
)

_JSON = GraphQLScalarType("JSON", description="Any JSON value.")

_TOKENS = GraphQLObjectType(
    "ObtainServiceTokenPayload",
    {
        "token": GraphQLField(
            GraphQLNonNull(GraphQLString), description="Send it as: Authorization: Token <token>."
        ),
        "refreshToken": GraphQLField(
            GraphQLNonNull(GraphQLString),
            resolve=lambda tokens, _info: tokens.refresh_token,
            description="Obtains another token without the API key.",
        ),
        "refreshExpiresIn": GraphQLField(
            GraphQLNonNull(GraphQLInt),
            resolve=lambda tokens, _info: tokens.refresh_expires_at,
            description="When the refresh token expires, as a Unix time.",
        ),
        "payload": GraphQLField(
            GraphQLNonNull(_JSON), description="The claims of the token. exp is the Unix time of its expiry."
        ),
    },
)

_OBTAIN = GraphQLField(
    _TOKENS,
    args={"input": GraphQLArgument(GraphQLNonNull(_INPUT))},
    resolve=obtain,
    description="Exchange an API key, or a refresh token, for a token.",
)

SCHEMA = GraphQLSchema(
    query=GraphQLObjectType(
        "Query",
        # GraphQL requires a query. Everything that can be read is in the REST interface.
        {
            "documentation": GraphQLField(
                GraphQLNonNull(GraphQLString),
                resolve=lambda _root, _info: "/v1/docs/",
                description="Path of the page that describes the REST interface.",
            )
        },
    ),
    mutation=GraphQLObjectType("Mutation", {"obtainServiceToken": _OBTAIN, "ObtainServiceToken": _OBTAIN}),
)

"""The description of obtaining a token: a GraphQL mutation, described as an operation with JSON bodies."""

from typing import Any

from migration_service.blueprints.requests.error_bodies import ErrorType

PATH = "/v1/graphql/"
_MUTATION = (
    "mutation ($input: ObtainServiceTokenInput!) { obtainServiceToken(input: $input) "
    "{ token refreshToken refreshExpiresIn } }"
)
_REQUEST: dict[str, Any] = {
    "type": "object",
    "description": "A GraphQL document with its variables.",
    "required": ["query"],
    "properties": {
        "query": {"type": "string", "description": "The document.", "examples": [_MUTATION]},
        "variables": {
            "type": ["object", "null"],
            "additionalProperties": True,
            "description": "The values of the document's variables, by name.",
        },
        "operationName": {
            "type": ["string", "null"],
            "description": "The operation of the document to execute, if it has several.",
        },
    },
}
_TOKENS: dict[str, Any] = {
    "type": "object",
    "description": "The fields that the document selects.",
    "properties": {
        "token": {"type": "string", "description": "Send it as `Authorization: Token <token>`."},
        "refreshToken": {"type": "string", "description": "Obtains another token without the API key."},
        "refreshExpiresIn": {
            "type": "integer",
            "description": "When the refresh token expires, as a Unix time.",
        },
        "payload": {
            "type": "object",
            "additionalProperties": True,
            "description": "The claims of the token. `exp` is the Unix time at which it expires.",
        },
    },
}
_ERROR: dict[str, Any] = {
    "type": "object",
    "description": "A failure, as GraphQL reports it.",
    "required": ["message", "extensions"],
    "properties": {
        "message": {"type": "string", "description": "For people. It may change."},
        "locations": {
            "type": "array",
            "items": {"type": "object", "additionalProperties": True},
            "description": "The lines and columns of the document.",
        },
        "path": {
            "type": "array",
            "items": {"type": ["string", "integer"]},
            "description": "The field of the result that could not be computed.",
        },
        "extensions": {
            "type": "object",
            "description": "The failure, for programs.",
            "required": ["errorType", "errorCode", "errorDescription"],
            "properties": {
                "errorType": {
                    "type": "string",
                    "description": "The kind of failure.",
                    "enum": list(ErrorType),
                },
                "errorCode": {"type": "string", "description": "Stable."},
                "errorDescription": {"type": "string", "description": "For people. It may change."},
            },
        },
    },
}
_ANSWER: dict[str, Any] = {
    "type": "object",
    "description": "The result of a GraphQL document.",
    "properties": {
        "data": {
            "type": ["object", "null"],
            "description": "By the names of the fields of the document, or of their aliases.",
            "properties": {
                "obtainServiceToken": {
                    "anyOf": [{"$ref": "#/components/schemas/ServiceToken"}, {"type": "null"}],
                    "description": "Null if the token was refused.",
                },
            },
            "additionalProperties": True,
        },
        "errors": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/GraphQLError"},
            "description": "The failures. Absent if there are none.",
        },
    },
}
SCHEMAS = {
    "TokenRequest": _REQUEST,
    "ServiceToken": _TOKENS,
    "TokenAnswer": _ANSWER,
    "GraphQLError": _ERROR,
}

_REQUEST_EXAMPLE = {"query": _MUTATION, "variables": {"input": {"APIKey": "<API_KEY>"}}}
_ANSWER_EXAMPLE = {
    "data": {
        "obtainServiceToken": {
            "token": "<ACCESS_TOKEN>",
            "refreshToken": "<REFRESH_TOKEN>",
            "refreshExpiresIn": 1_772_960_400,
        }
    }
}
_FAILURES = {
    "400": ("VALIDATION", "invalid", "The document or its variables are invalid."),
    "403": ("AUTHENTICATION", "permission_denied", "The API key may not be used from this address."),
    "411": ("VALIDATION", "length_required", "The request does not state the length of its body."),
    "413": ("VALIDATION", "request_too_large", "The body is larger than the service accepts."),
    "415": ("VALIDATION", "unsupported_media_type", "The body is not JSON."),
    "429": ("THROTTLING", "throttled", "Too many failed attempts. Wait for the time in Retry-After."),
    "500": ("APPLICATION", "error", "An unexpected error. Nothing was changed."),
    "503": ("APPLICATION", "service_unavailable", "The service is temporarily unavailable. Try again."),
}


def token_operation() -> dict[str, Any]:
    """Return the operation. `description.complete_description` adds the parts that all operations share."""
    answer = {"schema": {"$ref": "#/components/schemas/TokenAnswer"}}
    responses: dict[str, Any] = {
        "200": {
            "description": "The token, or `errors` if it was refused, for example for a wrong API key.",
            "content": _content({**answer, "example": _ANSWER_EXAMPLE}),
        }
    }
    for status, (kind, code, detail) in _FAILURES.items():
        extensions = {"errorType": kind, "errorCode": code, "errorDescription": detail}
        example = {"errors": [{"message": detail, "extensions": extensions}]}
        responses[status] = {
            "description": detail,
            "content": _content({**_or_error_body(status, answer), "example": example}),
        }
    return {
        "operationId": "obtain_token",
        "summary": "Exchange an API key, or a refresh token, for a token",
        "description": "The GraphQL mutation `obtainServiceToken`, also spelled `ObtainServiceToken`. Its "
        "input is either `APIKey`, which the service operator issues, or `refreshToken`. A token is valid "
        "for an hour. Each response has a new refresh token to use next time. All of them expire "
        "seven days after the API key was exchanged.",
        "security": [],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/TokenRequest"},
                    "example": _REQUEST_EXAMPLE,
                }
            },
        },
        "responses": responses,
    }


def hint_operation() -> dict[str, Any]:
    """Return the operation of a GET, which does not execute documents."""
    detail = {"type": "string", "description": "An example of the request."}
    hint = {"type": "object", "required": ["detail"], "properties": {"detail": detail}}
    return {
        "operationId": "show_token_hint",
        "summary": "Show how a token is obtained",
        "description": "A GET does not execute documents, because an API key does not belong in an address.",
        "security": [],
        "parameters": [
            {
                "in": "query",
                "name": "query",
                "description": "A GraphQL document. Its response is 405.",
                "schema": {"type": "string"},
            }
        ],
        "responses": {
            "200": {"description": "How to send the mutation.", "content": _content({"schema": hint})},
            "405": {
                "description": "The request has a document. Send it with POST.",
                "headers": {"Allow": {"description": "POST", "schema": {"type": "string"}}},
                "content": _content({"schema": {"$ref": "#/components/schemas/TokenAnswer"}}),
            },
        },
    }


def _content(media: dict[str, Any]) -> dict[str, Any]:
    """Return a response in both media types of GraphQL over HTTP. The second is sent only on request."""
    return {"application/json": media, "application/graphql-response+json": media}


def _or_error_body(status: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Add the usual error body, because a request can be refused before GraphQL runs."""
    if status not in ("400", "503"):
        return answer
    return {"schema": {"anyOf": [answer["schema"], {"$ref": "#/components/schemas/ErrorBody"}]}}

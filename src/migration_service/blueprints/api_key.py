"""The API key of the caller: what it may do and from where, and what the service accepts at most."""

from importlib.metadata import version
from typing import Any

from flask import request

from migration_payloads.schemas.base import AnswerSchema
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas import answers
from migration_service.services.access.api_keys import report_api_key


class LimitsAnswerSchema(AnswerSchema):
    """What the service accepts at most."""

    body_bytes = answers.Integer("The bytes of a body, and of a line of a batch.", 8_000_000)
    batch_bytes = answers.Integer("The bytes of the file of a batch after decompression.", 16_000_000_000)
    batch_lines = answers.Integer("The lines of the file of a batch.", 2_000_000)


class ApiKeyAnswerSchema(AnswerSchema):
    """The API key of the token, and what holds for it."""

    api_key = answers.String("The prefix of the API key.", "ami_0123456789")
    api_key_name = answers.String("Its name, if it has one.", "nightly import", allow_none=True)
    organisation = answers.String("The organisation that it belongs to.", "Northstar Energy")
    scopes = answers.List(answers.String, "Its scopes. Null for all.", ["read", "batches"], allow_none=True)
    import_suppliers = answers.List(
        answers.String,
        "The codes of the import suppliers that it is limited to. Null for all of the organisation.",
        ["DEMO_SUPPLIER"],
        allow_none=True,
    )
    allowed_networks = answers.List(
        answers.String,
        "The networks from which it may be used. Null for any.",
        ["192.0.2.0/24"],
        allow_none=True,
    )
    expires_at = answers.Moment("When it expires. Null for never.", "2027-03-01T00:00:00Z", allow_none=True)
    address = answers.String("The address that this request came from.", "192.0.2.7", allow_none=True)
    version = answers.String("The version of the service.", "0.1.0")
    limits = answers.Nested(LimitsAnswerSchema, "What the service accepts at most.")


_VERSION = version("migration-service")

blueprint = make_blueprint("api_key", "api-key", "What your API key may do, and what the service accepts.")


@blueprint.get("/")
@blueprint.response(200, ApiKeyAnswerSchema)
@answers_errors()
def get_api_key() -> dict[str, Any]:
    """Get your API key, and what holds for it

    A key with any scope may ask. The answer has the prefix of the key and its limits, the address that the
    service sees, and what the service accepts at most.
    """
    with resources().Session.begin() as session:
        report = report_api_key(session, caller().prefix)
    settings = resources().settings
    limits = {
        "body_bytes": settings.max_body_bytes,
        "batch_bytes": settings.max_batch_bytes,
        "batch_lines": settings.max_batch_lines,
    }
    return {**report, "address": request.remote_addr, "version": _VERSION, "limits": limits}

"""The API key of the caller: what it may do and from where, and what the service accepts at most."""

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from flask import request

from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas.api_key import ApiKeyAnswerSchema
from migration_service.services.access.key_reports import report_api_key

_VERSION = version("migration-service")

blueprint = make_blueprint("api_key", "api-key", "What your API key may do, and what the service accepts.")


@blueprint.get("/")
@blueprint.response(200, ApiKeyAnswerSchema, example=ApiKeyAnswerSchema.example())
@answers_errors(blueprint)
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
    return {**asdict(report), "address": request.remote_addr, "version": _VERSION, "limits": limits}

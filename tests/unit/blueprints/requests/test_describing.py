"""A view that is only described stays the function that it is, and keeps every description."""

from flask_smorest import Blueprint

from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import document_parameters
from migration_service.errors import AccountNotStagedError, ConcurrencyLimitReachedError

_PARAMETER = {"in": "header", "name": "X-Test", "schema": {"type": "string"}}


def test_a_view_with_errors_and_parameters_has_no_wrapper() -> None:
    blueprint = Blueprint("test", __name__)

    def view() -> str:
        return "answered"

    errors = answers_errors(blueprint, AccountNotStagedError, ConcurrencyLimitReachedError)
    described = document_parameters(blueprint, _PARAMETER)(errors(view))
    assert described is view
    found = vars(described)["_apidoc"]
    assert set(found["response"]["responses"]) == {400, 401, 403, 429, 503}
    assert found["manual_doc"]["parameters"] == [_PARAMETER]

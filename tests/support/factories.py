"""Creates what tests need: organisations with keys, suppliers and teams, with unique names."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery import Celery
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from migration_service.services.access.api_keys import find_prefix, issue_api_key
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import create_operations_team
from migration_service.tasks.app import MigrationCelery

#: Makes a client of an application with other settings.
MakeClient = Callable[[Settings], FlaskClient]


def disconnect(app: Flask) -> None:
    """Close every connection of an application. One that is left open is an error in a later test."""
    with app.app_context():
        shared = resources()
    shared.Session.kw["bind"].dispose()
    shared.redis.connection_pool.disconnect()
    shared.dispatch.waiting_redis.connection_pool.disconnect()
    close_celery(shared.celery)


def close_celery(celery: MigrationCelery) -> None:
    """Close every connection of a Celery application, those of tasks that ran in it as well.

    A task of a test runs in the current application, which may be the one of a web application.
    """
    close_resources(celery)
    celery.close()


def close_resources(celery: Celery) -> None:
    """Close the connections of tasks that ran in a Celery application. It makes new ones if it needs them."""
    made = vars(celery).get("resources")
    if made is not None:
        made.Session.kw["bind"].dispose()
        made.redis.connection_pool.disconnect()


@dataclass(frozen=True)
class Customer:
    """An organisation that uses the service, with its names and its key."""

    organisation: str
    organisation_id: int
    api_key: str
    import_supplier: str
    operations_team: str

    @property
    def prefix(self) -> str:
        prefix = find_prefix(self.api_key)
        assert prefix
        return prefix


def make_customer(sessions: sessionmaker[Session], **supplier: str) -> Customer:
    """Create an organisation with one API key, one import supplier (with these options) and a team.

    The supplier's documents lie below s3://bucket/<code>.
    """
    name = secrets.token_hex(4)
    code = f"S_{name}"
    # In UTC, as the clocks of the tests.
    options = {"document_root": f"s3://bucket/{code}", "time_zone": "UTC"} | supplier
    with sessions.begin() as session:
        organisation = create_organisation(session, f"Organisation {name}")
        create_import_supplier(session, code=code, organisation_name=organisation.name, **options)
        create_operations_team(session, f"Team {name}")
        api_key = issue_api_key(session, organisation_name=organisation.name)
    return Customer(organisation.name, organisation.id, api_key, code, f"Team {name}")


def json_of(response: TestResponse) -> Any:
    """Return the JSON of a response. Fail if it is not JSON."""
    assert response.is_json, response.text
    return response.json


OBTAIN = """
mutation($input: ObtainServiceTokenInput!) {
  obtainServiceToken(input: $input) { token refreshToken refreshExpiresIn payload }
}
"""


def obtain(client: FlaskClient, **given: str | None) -> dict[str, Any]:
    """Run the mutation with this input. Return its data, or the extensions of its error."""
    answer = json_of(client.post("/v1/graphql/", json={"query": OBTAIN, "variables": {"input": given}}))
    if errors := answer.get("errors"):
        extensions: dict[str, Any] = errors[0]["extensions"]
        return extensions
    tokens: dict[str, Any] = answer["data"]["obtainServiceToken"]
    return tokens

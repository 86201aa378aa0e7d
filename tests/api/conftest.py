"""A client and a customer for the tests of the interface."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker

from migration_service.app import create_app
from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from support.factories import Customer, MakeClient, disconnect, obtain
from support.supplier_client import SupplierClient


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """A client with its own address, so that failed attempts of other tests do not count against it."""
    client = app.test_client()
    client.environ_base["REMOTE_ADDR"] = f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.7"
    return client


@pytest.fixture(autouse=True)
def _every_request_leaves_its_place(app: Flask) -> Iterator[None]:
    """Fail if a request of the test still counts as running: it would delay those of its organisation."""
    yield
    with app.app_context():
        held = resources().places._held
    assert not {owner: it for owner, it in held.items() if it.running or it.waiting}


@pytest.fixture(scope="session")
def description(app: Flask) -> Any:
    return app.test_client().get("/v1/openapi.json").json


@pytest.fixture
def make_client(app: Flask) -> Iterator[MakeClient]:
    """Makes clients of further applications. Afterwards the shared one is Celery's current one again."""
    made: list[Flask] = []

    def make(settings: Settings) -> FlaskClient:
        made.append(create_app(settings))
        return made[-1].test_client()

    yield make
    for other in made:
        disconnect(other)
    with app.app_context():
        resources().celery.set_current()


@pytest.fixture
def token(client: FlaskClient, customer: Customer) -> str:
    return str(obtain(client, APIKey=customer.api_key)["token"])


@pytest.fixture
def another(app: Flask, sessions: sessionmaker[Session]) -> SupplierClient:
    return SupplierClient.create(app, sessions)

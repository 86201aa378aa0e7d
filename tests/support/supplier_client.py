"""A supplier for one test: its organisation, key, token and team, and its calls of the interface."""

import time
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any
from urllib.parse import quote
from uuid import UUID

import msgspec
from flask import Flask
from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session as OrmSession
from sqlalchemy.orm import sessionmaker
from werkzeug.test import TestResponse

from migration_payloads.schemas.json import parse_json
from migration_service.db.base import new_id
from migration_service.models import AccountImportProcess, ImportSupplier
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.imports.states import RunningAttempt
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.processing.signals import notify
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier, set_status
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.states import SupplierStatus
from migration_service.tasks.resources import WorkerResources
from migration_service_local.samples import generate_accounts
from support.factories import make_customer, obtain

API = "/v1/data-import"


class Seeds:
    """One seed after the other for generated accounts, the same ones in each test."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin with the first seed again."""
        self._numbers = count(1_000)

    def next(self) -> int:
        """Return a seed that no other supplier of this test has."""
        return next(self._numbers)


SEEDS = Seeds()

#: Seconds after which a copy of a supplier obtains another token. Tokens expire after an hour.
_TOKEN_HOLDS = 1_800.0


@dataclass
class SupplierClient:
    """Calls the interface over a Flask test client with the token of one organisation."""

    app: Flask
    Session: sessionmaker[OrmSession]
    code: str
    organisation: str
    team: str
    token: str = ""
    api_key: str = ""
    _seed: int = field(default_factory=SEEDS.next)
    _made_at: float = field(default_factory=time.monotonic)

    @classmethod
    def create(
        cls, app: Flask, sessions: sessionmaker[OrmSession], *, profile: str = "lenient"
    ) -> "SupplierClient":
        """Create an organisation with one supplier, whose documents are below s3://bucket/<code>."""
        customer = make_customer(sessions, profile=profile)
        client = cls(
            app,
            sessions,
            customer.import_supplier,
            customer.organisation,
            customer.operations_team,
            api_key=customer.api_key,
        )
        client.token = client.obtain_token()
        return client

    def copy(self) -> "SupplierClient":
        """Return the same supplier for another test, for which its rows were put back."""
        copied = replace(self, _seed=SEEDS.next())
        if time.monotonic() - self._made_at > _TOKEN_HOLDS:
            copied.token = copied.obtain_token()
        return copied

    def obtain_token(self) -> str:
        """Obtain a token with the GraphQL mutation."""
        return str(obtain(self.app.test_client(), APIKey=self.api_key)["token"])

    def renew_key(self) -> None:
        """Issue another key of the same organisation, and obtain a token with it."""
        with self.Session.begin() as session:
            self.api_key = issue_api_key(session, organisation_name=self.organisation)
        self.token = self.obtain_token()

    def organisation_id(self) -> int:
        """Return the id of its organisation."""
        with self.Session() as session:
            owner = select(ImportSupplier.organisation_id).where(ImportSupplier.code == self.code)
            return session.scalars(owner).one()

    def known(self) -> KnownSupplier:
        """Return the supplier as services know it."""
        with self.Session() as session:
            return get_import_supplier(session, self.code, organisation_id=None)

    def process_row(self, number: str) -> AccountImportProcess:
        """Return the row of the import process of an account."""
        with self.Session() as session:
            return session.scalars(select(AccountImportProcess).where(self.process_of(number))).one()

    def accounts(self, number: int = 1) -> list[dict[str, Any]]:
        """Return generated payloads of this supplier, the same at each call."""
        return list(generate_accounts(number, supplier=self.code, seed=self._seed))

    def get(self, path: str, **kwargs: Any) -> TestResponse:
        """GET below /v1/data-import, with the token."""
        return self._call("GET", path, **kwargs)

    def read(self, path: str, **kwargs: Any) -> Any:
        """Return the JSON of what has to be there, or of each of its lines."""
        answer = self.get(path, **kwargs)
        assert answer.status_code == 200, answer.text
        if answer.mimetype == "application/x-ndjson":
            return [msgspec.json.decode(line) for line in answer.data.splitlines()]
        return answer.json

    def pages(self, path: str) -> list[Any]:
        """Return each page of a list, as the Link headers lead through it."""
        pages = []
        while path:
            answer = self.get(path)
            assert answer.status_code == 200, answer.text
            pages.append(answer.json)
            link = answer.headers.get("Link", "")
            assert not link or link.endswith('>; rel="next"'), link
            path = link.partition(">")[0].partition(API)[2]
        return pages

    def post(self, path: str, json: Any = None, **kwargs: Any) -> TestResponse:
        """POST below /v1/data-import, with the token."""
        return self._call("POST", path, json=json, **kwargs)

    def put(self, path: str, json: Any = None, **kwargs: Any) -> TestResponse:
        """PUT below /v1/data-import, with the token."""
        return self._call("PUT", path, json=json, **kwargs)

    def validate(self, payload: Any, **kwargs: Any) -> TestResponse:
        """Section 4.1."""
        return self.post("/validate-account/", payload, **kwargs)

    def stage(self, payload: Any, **query: str) -> TestResponse:
        """Section 4.2."""
        return self.post("/account-import-process/create-or-update/", payload, query_string=query)

    def stage_new(self, number: int = 1) -> list[str]:
        """Stage generated accounts. Return their numbers."""
        staged = []
        for account in self.accounts(number):
            assert self.stage(account).status_code == 201
            staged.append(str(account["external_account_number"]))
        return staged

    def process(
        self,
        number: str,
        *,
        prefer: str = "respond-async",
        headers: dict[str, str] | None = None,
        **fields: Any,
    ) -> TestResponse:
        """Section 4.3, without waiting, so that the test decides when a worker takes it."""
        body = {
            "external_account_number": number,
            "import_supplier_code": self.code,
            "operations_team_name": self.team,
            **fields,
        }
        headers = {"Prefer": prefer} | (headers or {})
        return self.post("/account-import-process/process/", body, headers=headers)

    def status(self, number: str) -> TestResponse:
        """Section 4.4."""
        return self.get(f"/account-transfer-status/{self.code}/{quote(number, safe='')}/")

    def set_status(self, status: SupplierStatus) -> None:
        """Set the status, as an operator does with `suppliers set-status`."""
        with self.Session.begin() as session:
            set_status(session, self.code, status)

    def process_of(self, number: str) -> ColumnElement[bool]:
        """Return the condition for the row of this account. Other suppliers may use the same number."""
        supplier = select(ImportSupplier.id).where(ImportSupplier.code == self.code).scalar_subquery()
        return and_(
            AccountImportProcess.import_supplier_id == supplier,
            AccountImportProcess.external_account_number == number,
        )

    def attempt_of(self, number: str, attempt_id: UUID | None = None) -> RunningAttempt:
        """Return an attempt to create an account, which nobody has started yet."""
        with self.Session() as session:
            return RunningAttempt(
                id=attempt_id or new_id(),
                account_import_process_id=self.process_row(number).id,
                operations_team_id=get_operations_team_id(session, self.organisation_id(), self.team),
                api_key_id=None,
                dry_run=False,
                request_id=None,
                address=None,
            )

    def reconcile(self, query: str = "") -> dict[str, Any]:
        """GET /reconciliation/<supplier>/, with its numbers as they are written."""
        answer = self.get(f"/reconciliation/{self.code}/{query}")
        assert answer.status_code == 200, answer.text
        report: dict[str, Any] = parse_json(answer.data)
        return report

    def is_in_progress(self, number: str) -> bool:
        """Return whether an attempt is in progress for an account, as the database has it."""
        return self._find_attempt(number) is not None

    def current_attempt(self, number: str) -> UUID:
        """Return the attempt that is in progress for an account."""
        attempt_id = self._find_attempt(number)
        assert attempt_id is not None
        return attempt_id

    def work(self, resources: WorkerResources, number: str) -> str:
        """Do what a worker does with the attempt in progress for an account. Return the id of the attempt."""
        attempt_id = self.current_attempt(number)
        done = perform_attempt(resources.Session, attempt_id)
        assert done is not None
        notify(resources.redis, resources.slots, {attempt_id: done.service_account_number})
        return str(attempt_id)

    def _find_attempt(self, number: str) -> UUID | None:
        with self.Session() as session:
            return session.scalar(select(AccountImportProcess.attempt_id).where(self.process_of(number)))

    def _call(
        self, method: str, path: str, headers: dict[str, str] | None = None, **kwargs: Any
    ) -> TestResponse:
        headers = {"Authorization": f"Token {self.token}"} | (headers or {})
        path = path if path.startswith("/v1/") else API + path
        return self.app.test_client().open(path, method=method, headers=headers, **kwargs)

"""What is true of a supplier and its account before a documented request is sent, and sending it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from werkzeug.test import TestResponse

from migration_payloads.schemas.json import parse_json
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.setup.limits import set_concurrency_limit
from migration_service.states import SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.supplier_client import SupplierClient
from support.vendor_servers import SANDBOX_VARIABLE, make_sandbox_vendor

FOLDER = Path(__file__).parent


@dataclass
class Situation:
    """A supplier, its account, and what is true of them before a request is sent."""

    supplier: SupplierClient
    resources: WorkerResources
    sandbox_url: str
    #: What the names in angle brackets stand for.
    names: dict[str, str]
    #: A worker creates the account that the request asks for.
    is_at_work: bool = False

    def send(self, section: dict[str, Any], exchange: dict[str, Any]) -> TestResponse:
        """Send the request of an exchange, as it is written."""
        method, path = self._fill(exchange.get("request", section["request"])).split(" ", 1)
        headers = section.get("headers", {}) | exchange.get("headers", {})
        body = self._find_body(exchange)
        return self.supplier.app.test_client().open(
            f"/v1/{path}",
            method=method,
            query_string=exchange.get("query"),
            headers=json.loads(self._fill(json.dumps(headers))),
            data=None if body is None else self._fill(json.dumps(body)),
            content_type="application/json" if body is not None else None,
        )

    def _find_body(self, exchange: dict[str, Any]) -> Any:
        """Return the body of an exchange, or of the first one of the file that it names."""
        if "body_of" not in exchange:
            return exchange.get("body")
        return json.loads((FOLDER / exchange["body_of"]).read_text())["exchanges"][0]["body"]

    def shape(self, exchange: dict[str, Any]) -> Any:
        """Return the documented answer of an exchange."""
        return parse_json(self._fill(json.dumps(exchange["answer"])).encode())

    def _fill(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(f"<{name}>", value)
        return text

    def stage(self) -> None:
        """Store the account of the first example of section 4.2."""
        self.send_first("4.2_stage.json")

    def begin(self) -> None:
        """Ask for the account to be created."""
        self.stage()
        assert self.supplier.process(self.names["external_account_number"]).status_code == 202

    def create(self) -> None:
        """Stage and create the account."""
        self.begin()
        self.work()
        answer = self.supplier.status(self.names["external_account_number"])
        self.names["service_account_number"] = (answer.json or {})["service_account_number"]

    def work(self) -> None:
        """Do what a worker does with the attempt that is in progress."""
        self.supplier.work(self.resources, self.names["external_account_number"])

    def is_in_progress(self) -> bool:
        """Return True if there is an attempt for a worker."""
        return self.supplier.is_in_progress(self.names["external_account_number"])

    def skip(self) -> None:
        """Mark the account to be skipped."""
        with self.supplier.Session.begin() as session:
            supplier = self.supplier.known()
            skip_accounts(session, supplier.id, [self.names["external_account_number"]])

    def stage_another(self) -> None:
        """Store another account of the same supplier."""
        (other,) = self.supplier.accounts()
        self.names["other_account_number"] = other["external_account_number"]
        assert self.supplier.stage(other).status_code == 201

    def add_vendor(self, variable: str = SANDBOX_VARIABLE) -> None:
        """Set up a payment vendor; its secret is in this variable of the environment."""
        sessions = self.supplier.Session
        self.names["vendor"] = make_sandbox_vendor(sessions, self.sandbox_url, variable=variable)

    def send_first(self, file: str) -> None:
        """Send the first example of a file, which has to succeed."""
        section = json.loads((FOLDER / file).read_text())
        answer = self.send(section, section["exchanges"][0])
        assert answer.status_code == 201, answer.text

    def reach_the_limit(self) -> None:
        """Stage the account, and let another one have the only slot under the concurrency limit."""
        self.stage()
        self.stage_another()
        with self.supplier.Session.begin() as session:
            set_concurrency_limit(session, 1)
        assert self.supplier.process(self.names["other_account_number"]).status_code == 202

    def work_on_the_request(self) -> None:
        """Let a worker take the attempt that the request begins."""
        self.is_at_work = True


#: What an exchange may say under `given`.
GIVEN: dict[str, Callable[[Situation], None]] = {
    "the account is staged": Situation.stage,
    "the account is being created": Situation.begin,
    "the account is imported": Situation.create,
    "the account is marked to be skipped": Situation.skip,
    "another account is staged": Situation.stage_another,
    "the supplier is Paused": lambda situation: situation.supplier.set_status(SupplierStatus.PAUSED),
    "the supplier is Complete": lambda situation: situation.supplier.set_status(SupplierStatus.COMPLETE),
    "a worker is free": Situation.work_on_the_request,
    "as many accounts are processed as may be": Situation.reach_the_limit,
    "the vendor is set up": Situation.add_vendor,
    "the vendor is set up without its secret": lambda situation: situation.add_vendor("TESTVARIABLE_NOT_SET"),
    "the notes were added": lambda situation: situation.send_first("4.8_notes.json"),
    "the transactions were added": lambda situation: situation.send_first("4.9_transactions.json"),
}

"""What operators do with `migration-service`, in the console and over REST answers what each page says.

At the start there is an organisation Noord with the supplier NORTHSTAR and the team North, a book of twelve
accounts in `book.ndjson`, and four operators: Anna administers, Omar operates, Rosa reads, Ben is bound to
another organisation.
"""

import pwd
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import overview
from migration_service.config import Settings
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.access.operators import (
    OperatorRole,
    create_operator,
    set_operator_password,
)
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import create_operations_team
from migration_service.tasks.resources import WorkerResources
from migration_service_local.samples import generate_accounts
from support.batch_client import BatchClient
from support.commands import Run
from support.console_client import PASSWORD, ConsoleClient
from support.servers import EmbeddedServers
from support.supplier_client import SupplierClient
from support.vendor_servers import make_sandbox_vendor
from support.wave_client import NOON, WaveClient
from transcripts.desk import NAMED_IN_CONSOLE, Desk
from transcripts.transcript import read_or_write, rewrite

_FOLDER = Path(__file__).parent
#: The pages during whose calls each supplier has a neighbour, which nothing touches.
_BESIDE_NEIGHBOURS = {"again", "newer", "replace-more", "retried", "versions"}
_ROLES = {
    "Anna": OperatorRole.ADMINISTER,
    "Omar": OperatorRole.OPERATE,
    "Rosa": OperatorRole.READ,
    "Ben": OperatorRole.ADMINISTER,
}


@pytest.fixture
def clients(
    console_app: Flask,
    sessions: sessionmaker[Session],
    embedded_servers: EmbeddedServers,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, ConsoleClient]:
    """The operators, who are not logged in yet. A sweep has just run."""
    embedded_servers.empty()
    monkeypatch.setattr(overview, "_NO_SWEEP", 600)
    clients = {}
    with sessions.begin() as session:
        for organisation, code in (("Noord", "NORTHSTAR"), ("Zuid", "SÜDWIND")):
            create_organisation(session, organisation)
            create_import_supplier(session, code=code, organisation_name=organisation, time_zone="UTC")
        for name, role in _ROLES.items():
            create_operator(session, name, role, organisations=["Zuid"] if name == "Ben" else [])
            set_operator_password(session, name, PASSWORD)
    for place, name in enumerate(_ROLES):
        clients[name] = ConsoleClient(console_app)
        clients[name].client.environ_base["REMOTE_ADDR"] = f"10.0.0.{place}"
    return clients


@pytest.fixture
def waves(
    app: Flask,
    sessions: sessionmaker[Session],
    clients: dict[str, ConsoleClient],
    worker_resources: WorkerResources,
) -> Iterator[WaveClient]:
    """The supplier as its client sees it, and what workers and sweeps do."""
    assert clients
    with sessions.begin() as session:
        create_operations_team(session, "North")
        key = issue_api_key(session, organisation_name="Noord", name="nightly")
    supplier = SupplierClient(app, sessions, "NORTHSTAR", "Noord", "North", api_key=key)
    supplier.token = supplier.obtain_token()
    waves = WaveClient(BatchClient(supplier, worker_resources))
    with waves.clock():
        yield waves


@pytest.mark.parametrize(
    "page",
    sorted([*_FOLDER.glob("rest/*.md"), *_FOLDER.glob("operators/*.md"), *_FOLDER.glob("console/*.md")]),
    ids=lambda it: f"{it.parent.name}/{it.stem}",
)
def test_the_service_prints_and_shows_what_the_page_says(
    *,
    request: pytest.FixtureRequest,
    page: Path,
    run: Run,
    clients: dict[str, ConsoleClient],
    waves: WaveClient,
    settings: Settings,
    sessions: sessionmaker[Session],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if page.stem in _BESIDE_NEIGHBOURS:
        request.getfixturevalue("neighbour")
    if page.stem == "instructions":
        for name in ("Bank", "Other bank"):
            make_sandbox_vendor(sessions, request.getfixturevalue("sandbox_url"), name=name)
    monkeypatch.setattr(socket, "gethostname", lambda: "desk")
    monkeypatch.setattr(pwd, "getpwuid", lambda _id: SimpleNamespace(pw_name="frank"))
    book = generate_accounts(12, supplier="NORTHSTAR", seed=7, today=NOON.date())
    (tmp_path / "book.ndjson").write_bytes(b"".join(msgspec.json.encode(it) + b"\n" for it in book))

    def make_supplier(code: str) -> SupplierClient:
        """Return the supplier of Zuid with the first key of its organisation."""
        supplier = replace(waves.supplier, code=code, organisation="Zuid")
        supplier.renew_key()
        return supplier

    desk = Desk(run, clients, make_supplier, waves, tmp_path, patch=monkeypatch, key=settings.certificate_key)
    printed = rewrite(page, tmp_path, desk.perform, named=NAMED_IN_CONSOLE)
    assert printed.splitlines() == read_or_write(page, printed).splitlines()

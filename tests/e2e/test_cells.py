"""Three cells behind the documented HAProxy: each request reaches the cell of its key, and only that one."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from click.testing import CliRunner

from migration_service.cli import main
from migration_service.config import Settings
from migration_service.db.cells import number_cell
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.revisions import upgrade
from migration_service_local.samples import generate_accounts
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from migration_service_local.servers.postgres import DATABASE
from support.cell_balancer import NAMES, CellBalancer, cell_balancer
from support.factories import OBTAIN, Customer, make_customer
from support.servers import EmbeddedServers, wait_until
from support.supplier_client import API
from support.web_servers import HAPROXY, web_server

_INLINE = 'mutation { obtainServiceToken(input: {APIKey: "%s"}) { token } }'


@dataclass
class Cell:
    """A cell: the settings of its processes, its web server, and an organisation in it."""

    name: str
    settings: Settings
    port: int
    web: subprocess.Popen[bytes]
    customer: Customer

    def run(self, *arguments: str, **variables: str) -> str:
        """Run `migration-service` in this cell, and return its output."""
        environment = {
            "DATABASE_URL": self.settings.database_url,
            "REDIS_URL": self.settings.redis_url,
            "MIGRATION_SERVICE_SECRET_KEY": self.settings.secret_key,
            **variables,
        }
        result = CliRunner().invoke(main, arguments, env=environment)
        assert result.exit_code == 0, result.output
        return result.stdout


@dataclass
class Clients:
    """Requests that go through the balancer."""

    balancer: CellBalancer

    def send(self, method: str, path: str, token: str = "", **options: Any) -> requests.Response:
        headers = {"Authorization": f"Token {token}"} if token else {}
        url = f"http://{LOOPBACK}:{self.balancer.port}{path}"
        return requests.request(method, url, headers=headers, timeout=30, **options)

    def obtain(self, **given: str) -> dict[str, Any]:
        answer = self.send("POST", "/v1/graphql/", json={"query": OBTAIN, "variables": {"input": given}})
        tokens: dict[str, Any] = answer.json()["data"]["obtainServiceToken"]
        return tokens

    def suppliers(self, token: str) -> list[str]:
        answer = self.send("GET", f"{API}/import-suppliers/", token)
        return [it["import_supplier"] for it in answer.json()] if answer.ok else [str(answer.status_code)]


@pytest.fixture
def cells(migrated: Settings, embedded_servers: EmbeddedServers) -> Iterator[list[Cell]]:
    """Three cells. The first has no number, as a database that was there before there were others."""
    with ExitStack() as stack:
        made = []
        for number, name in enumerate(NAMES):
            settings = migrated
            if number:
                url, owner_url = stack.enter_context(embedded_servers.new_database())
                upgrade(owner_url, runtime_role=DATABASE)
                engine = make_engine(owner_url, pool_size=1, max_overflow=0, application_name="tests")
                with engine.begin() as connection:
                    number_cell(connection, number)
                engine.dispose()
                redis_url = migrated.redis_url.removesuffix("/0") + f"/{number}"
                settings = replace(migrated, database_url=url, redis_url=redis_url)
            engine = make_engine(settings.database_url, pool_size=1, max_overflow=0, application_name="tests")
            customer = make_customer(make_sessionmaker(engine))
            engine.dispose()
            port = random_free_port()
            web = stack.enter_context(web_server(settings, port, processes=1))
            made.append(Cell(name, settings, port, web, customer))
        yield made


@pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed: apt-get install haproxy")
def test_each_key_reaches_its_cell_follows_its_organisation_and_needs_no_other_cell(
    cells: list[Cell], tmp_path: Path
) -> None:
    one, two, three = cells
    with cell_balancer(tmp_path, [it.port for it in cells]) as balancer:
        clients = Clients(balancer)
        balancer.route(_map(cells))
        tokens = _check_routes(clients, cells)
        address = f"http://{LOOPBACK}:{balancer.port}"
        others = f'{{"three": {{"database_url": "{three.settings.database_url}", "address": "{address}"}}}}'
        moved = two.customer
        two.run("organisations", "move", moved.organisation, "--to", "three", MIGRATION_SERVICE_CELLS=others)
        wait_until(lambda: clients.suppliers(tokens["two"]["token"]) == ["421"], "the old cell knows of it")

        balancer.route(_map(cells))
        assert clients.suppliers(tokens["two"]["token"]) == [moved.import_supplier]
        assert clients.obtain(refreshToken=tokens["two"]["refreshToken"])["token"]
        account = next(generate_accounts(1, supplier=moved.import_supplier, seed=1))
        path = f"{API}/account-import-process/create-or-update/"
        assert clients.send("POST", path, tokens["two"]["token"], json=account).status_code == 201

        for process in (*psutil.Process(one.web.pid).children(recursive=True), one.web):
            process.kill()
        one.web.wait()
        gone = clients.send("GET", f"{API}/import-suppliers/", tokens["one"]["token"])
        # 502 over a connection that HAProxy had kept
        assert (gone.status_code in (502, 503), gone.json()["code"]) == (True, "service_unavailable")
        assert gone.headers["Retry-After"] == "5"
        assert clients.suppliers(tokens["three"]["token"]) == [three.customer.import_supplier]


def _map(cells: list[Cell]) -> str:
    return "".join(cell.run("organisations", "map", cell.name) for cell in cells)


def _check_routes(clients: Clients, cells: list[Cell]) -> dict[str, dict[str, Any]]:
    """Obtain tokens in each way, and see whose suppliers they show. Return the tokens of each cell."""
    tokens = {}
    for cell in cells:
        mine = [cell.customer.import_supplier]
        obtained = clients.obtain(APIKey=cell.customer.api_key)
        refreshed = clients.obtain(refreshToken=obtained["refreshToken"])
        inline = clients.send("POST", "/v1/graphql/", json={"query": _INLINE % cell.customer.api_key}).json()
        for token in (obtained["token"], refreshed["token"], inline["data"]["obtainServiceToken"]["token"]):
            assert clients.suppliers(token) == mine, cell.name
        tokens[cell.name] = refreshed
    unknown = clients.send("GET", f"{API}/import-suppliers/", "no token")
    assert unknown.json()["code"] == "authentication_failed"
    return tokens

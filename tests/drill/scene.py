"""The service for the drill: `migration-service up` with its real servers and processes."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import psycopg
import redis
import requests
from sqlalchemy.orm import Session

from migration_service.config import load_saved_settings
from migration_service.connections import make_redis
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.setup.limits import set_concurrency_limit
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import create_operations_team
from migration_service_client import Client
from migration_service_local.demo.first_operator import open_session
from migration_service_local.samples import generate_accounts
from migration_service_local.servers.ports import random_free_port
from support.servers import RunningService, processes_in, wait_until

_LOG_IN = "mutation($key: String!) { obtainServiceToken(input: {APIKey: $key}) { token } }"

SUPPLIER = "DRILL"
TEAM = "Drill team"
#: There are two, so that an account with the wrong one is noticed.
TEAMS = (TEAM, "Other drill team")

#: The concurrency limit that a new service has.
LIMIT = 250

#: Seconds after which an unacknowledged message is redelivered. They are few, so that it happens in a drill.
VISIBILITY_TIMEOUT = 8

#: Accounts whose numbers begin like this are created slowly (`_TRIGGER`).
SLOW = "SLOW-"
POISON = "POISON-"
#: The name of a session of PostgreSQL while it creates such an account.
WORKING, POISONED = "drill-working", "drill-poisoned"

#: The `billing_address1` of a version that replaces a created account.
CORRECTED = "A corrected address"
#: The name of a session of PostgreSQL in the middle of a transaction of the background worker.
REPLACING, TAKING_BACK, GOING_LIVE = "drill-replacing", "drill-taking-back", "drill-going-live"

IN_PROGRESS = "SELECT count(*) FROM account_import_process WHERE state = 'IN_PROGRESS'"

# This lets the database hold a worker in the middle of its transaction, and identify it, without code for
# tests in the service.
_TRIGGER = f"""
-- The lock of a worker that was killed goes at once, so that the next one meets the account, too.
ALTER DATABASE migration_service SET client_connection_check_interval = '50ms';
CREATE FUNCTION drill_pause() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.external_account_number LIKE '{SLOW}%' THEN
    PERFORM set_config('application_name', '{WORKING}', true), pg_sleep(0.3);
  ELSIF NEW.external_account_number LIKE '{POISON}%' THEN
    PERFORM set_config('application_name', '{POISONED}', true);
    -- Until the worker is killed, or its task is soon ended by its time limit. In steps, because time goes on
    -- while PostgreSQL is frozen.
    FOR step IN 1..240 LOOP
      PERFORM pg_sleep(0.1);
    END LOOP;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER drill_pause AFTER INSERT ON account FOR EACH ROW EXECUTE FUNCTION drill_pause();
-- Once in a transaction of the background worker that replaces, takes back or goes live.
CREATE FUNCTION drill_linger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('application_name') <> TG_ARGV[0] THEN
    PERFORM set_config('application_name', TG_ARGV[0], true), pg_sleep(0.7);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER drill_replacing AFTER UPDATE ON account FOR EACH ROW
  WHEN (NEW.billing_address1 = '{CORRECTED}' AND OLD.billing_address1 <> NEW.billing_address1)
  EXECUTE FUNCTION drill_linger('{REPLACING}');
CREATE TRIGGER drill_taking_back AFTER INSERT ON acknowledgement FOR EACH ROW
  EXECUTE FUNCTION drill_linger('{TAKING_BACK}');
CREATE TRIGGER drill_going_live AFTER UPDATE OF live_at ON account FOR EACH ROW
  EXECUTE FUNCTION drill_linger('{GOING_LIVE}');
"""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the service, and the key of a supplier."""

    url: str
    api_key: str

    def client(self) -> Client:
        """Return a client, for which the environment's proxies cannot reach a server on this machine."""
        return Client(self.url, self.api_key, proxy="")


def obtain_token(address: Address) -> str:
    """Obtain a token as a supplier does. Raise RequestException if that is not possible now."""
    with requests.Session() as session:
        session.trust_env = False  # the environment's proxies cannot reach a server on this machine
        response = session.post(
            f"{address.url}/v1/graphql/",
            json={"query": _LOG_IN, "variables": {"key": address.api_key}},
            timeout=60,
        )
    given = response.json().get("data") if response.status_code == 200 else None
    if not (given and given["obtainServiceToken"]):
        said = f"no token: {response.status_code} {response.text[:300]}"
        raise requests.RequestException(said, response=response)
    return str(given["obtainServiceToken"]["token"])


def numbered_accounts(count: int, beginning: str) -> list[dict[str, Any]]:
    """Return accounts of the supplier whose numbers have this prefix."""
    accounts = generate_accounts(count, supplier=SUPPLIER, seed=len(beginning))
    return [it | {"external_account_number": f"{beginning}{index}"} for index, it in enumerate(accounts)]


class Service:
    """A running service with a supplier, wherever it runs. `address` is the first of its `addresses`."""

    addresses: list[Address]
    token: str
    database_url: str
    redis: redis.Redis

    @property
    def address(self) -> Address:
        return self.addresses[0]

    def set_limit(self, limit: int | None) -> None:
        with self.session() as session:
            set_concurrency_limit(session, limit)

    def session(self) -> AbstractContextManager[Session]:
        """Open the one transaction of a connection of its own, and commit it at the end."""
        return open_session(self.database_url)

    def client(self) -> Client:
        """Return the suppliers' client of the supplier."""
        return self.address.client()

    def send(self, method: str, path: str, **request: Any) -> requests.Response:
        """Send a request below /v1/data-import with the supplier's token, on its own connection."""
        headers = {"Authorization": f"Token {self.token}"} | request.pop("headers", {})
        with requests.Session() as session:
            session.trust_env = False
            url = f"{self.address.url}/v1/data-import/{path}"
            return session.request(method, url, headers=headers, timeout=90, **request)

    def stage(self, count: int, beginning: str) -> list[str]:
        """Stage accounts whose numbers have this prefix. Return the numbers."""
        payloads = numbered_accounts(count, beginning)
        with self.client() as client, ThreadPoolExecutor(4) as pool:
            list(pool.map(client.stage_account, payloads))
        return [str(payload["external_account_number"]) for payload in payloads]

    def process(self, number: str, *, wait: bool = False, **fields: Any) -> requests.Response:
        """Request the creation of one account. With `wait`, wait for the outcome."""
        body = {
            "external_account_number": number,
            "import_supplier_code": SUPPLIER,
            "operations_team_name": TEAM,
        }
        headers = {} if wait else {"Prefer": "respond-async"}
        return self.send("POST", "account-import-process/process/", json=body | fields, headers=headers)

    def start_batch(
        self, lines: Any, mode: str = "import", content_type: str = "application/x-ndjson"
    ) -> str:
        """Start a batch with a file, and return its id."""
        params = {"import_supplier": SUPPLIER, "mode": mode}
        if mode == "import":
            params["operations_team_name"] = TEAM
        headers = {"Content-Type": content_type}
        answer = self.send("POST", "batches/", params=params, data=lines, headers=headers)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["batch_id"])

    def states(self, beginning: str) -> dict[str, int]:
        """Return the number of accounts with this prefix in each state."""
        rows = self.query(
            "SELECT state, count(*) FROM account_import_process "
            "WHERE external_account_number LIKE %s GROUP BY state",
            f"{beginning}%",
        )
        return dict(rows)

    def is_serving(self) -> bool:
        try:
            return requests.get(f"{self.address.url}/health/ready", timeout=30).ok
        except requests.RequestException:
            return False

    def is_idle(self) -> bool:
        """Return True if nothing is in progress and no slot is held."""
        try:
            return not (self.in_progress() or self.slots_in_use())
        except (psycopg.Error, redis.RedisError):
            return False

    def wait_until_quiet(self, seconds: float) -> None:
        """Wait until the service is idle and no message is left, including those of dead workers."""
        wait_until(lambda: self.is_idle() and not any(self.messages().values()), "quiet", seconds)

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of an SQL statement. Use a new connection, because the last one may be dead."""
        with self.connect() as connection:
            return connection.execute(statement.encode(), parameters).fetchall()

    def connect(self) -> psycopg.Connection:
        """Return a new connection. To open it takes some milliseconds of processor time."""
        return psycopg.connect(
            self.database_url, autocommit=True, connect_timeout=5, application_name="drill"
        )

    def slots_in_use(self) -> int:
        return int(self.redis.zcard("migration:slots"))

    def messages(self) -> dict[str, int]:
        """Return how many messages wait in each queue, and how many are not acknowledged."""
        found = {name: int(self.redis.llen(f"migration:{name}")) for name in ("interactive", "batch")}
        return found | {"unacknowledged": int(self.redis.hlen("migration:unacked"))}

    def in_progress(self) -> int:
        return int(self.query(IN_PROGRESS)[0][0])

    def prepare(self, url: str, owner_url: str, limit: int | None) -> None:
        """Create a supplier with two keys in a new database, and obtain a token for the first."""
        with self.session() as session:
            create_organisation(session, "Drill")
            create_import_supplier(session, code=SUPPLIER, organisation_name="Drill")
            for team in TEAMS:
                create_operations_team(session, team)
            set_concurrency_limit(session, limit)
            api_keys = [issue_api_key(session, organisation_name="Drill") for _ in range(2)]
        with psycopg.connect(owner_url, autocommit=True) as connection:
            connection.execute(_TRIGGER.encode())
        self.addresses = [Address(url, api_key) for api_key in api_keys]
        self.token = obtain_token(self.address)


class Scene(Service):
    """`migration-service up` with a supplier, in its own folder. Use it in a `with` statement.

    `environment` has further settings. `limit` is the concurrency limit.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: int | None = LIMIT,
        arguments: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.home = folder / "home"
        self._limit = limit
        settings = {"MIGRATION_SERVICE_BROKER_VISIBILITY_TIMEOUT": str(VISIBILITY_TIMEOUT)}
        ports = ("--port", str(random_free_port()), "--flower-port", str(random_free_port()))
        self.service = RunningService(
            self.home, "--sample", "0", *ports, *arguments, environment=settings | (environment or {})
        )

    def __enter__(self) -> "Scene":
        try:
            self.service.wait_until_serving()
            self.settings = load_saved_settings(self.home)
            self.database_url = self.settings["DATABASE_URL"]
            self.redis = make_redis(self.settings["REDIS_URL"])
            url = self.settings["MIGRATION_SERVICE_WEB_URL"]
            self.prepare(url, self.settings["MIGRATION_SERVICE_OWNER_DATABASE_URL"], self._limit)
        except BaseException:
            self.service.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.redis.close()
        self.service.__exit__(kind, error, trace)

    def main_process(self, name: str) -> psutil.Process:
        """Return the process of this program that `up` started. Wait while `up` starts it again."""
        found: list[psutil.Process] = []

        def find() -> bool:
            process = self.service.find(name)
            found[:] = [process] if process else []
            return bool(found)

        wait_until(find, f"{name} runs")
        return found[0]

    def kill(self, name: str) -> None:
        """Kill a program with all its processes. `up` starts it again."""
        pid = self.main_process(name).pid
        # A program that is being started is for a moment still in our own group.
        wait_until(lambda: os.getpgid(pid) != os.getpgrp(), "the program has a group of its own")
        os.killpg(os.getpgid(pid), signal.SIGKILL)

    def worker_at(self, application_name: str) -> psutil.Process | None:
        """Return the worker process whose session of PostgreSQL has this name now, or None."""
        rows = self.query(
            "SELECT client_port FROM pg_stat_activity WHERE application_name = %s", application_name
        )
        ports = {port for (port,) in rows}
        for process in processes_in(self.home / "programs" / "interactive") if ports else ():
            try:
                connected = process.net_connections(kind="tcp")
            except psutil.Error:
                continue
            if any(connection.laddr.port in ports for connection in connected):
                return process
        return None

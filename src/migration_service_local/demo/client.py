"""A supplier's client of the REST interface, for the sample migration."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import requests

_LOG_IN = "mutation($key: String!) { obtainServiceToken(input: {APIKey: $key}) { token } }"
#: The service is busy or partly unavailable. The same request may succeed a little later.
BUSY = (requests.codes.too_many_requests, requests.codes.service_unavailable)
# 202 and this code mean that the account is still being created. The repeated request gets the outcome.
_UNSETTLED = (*BUSY, requests.codes.accepted)
_IN_PROGRESS = "account_import_in_progress"
_GIVE_UP_SECONDS = 120.0


class MigrationError(Exception):
    """An account could not be migrated, or no token was issued. The message has the reason."""


@dataclass(frozen=True, slots=True)
class Addition:
    """A request that adds data to an existing account (4.8 to 4.11). `done` is the name of its count."""

    path: str
    body: dict[str, Any]
    done: str


@dataclass(slots=True)
class RequestOutcome:
    """The results of the accounts so far, counted by several threads."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    last_account: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str, number: int = 1) -> None:
        """Add `number` to the count of `what`."""
        with self._lock:
            self.counts[what] += number

    def fail(self, reason: str) -> None:
        """Record why an account failed."""
        with self._lock:
            self.failures.append(reason)


class SupplierClient(AbstractContextManager["SupplierClient"]):
    """Migrates accounts one after the other. Each thread has its own. Use it in a `with` statement.

    A request that gets 429 or 503, or loses its connection, is retried after the time in Retry-After, because
    every request here is idempotent.
    """

    def __init__(
        self,
        web_url: str,
        outcome: RequestOutcome,
        over: threading.Event,
        additions: Callable[[dict[str, Any]], Iterable[Addition]] = lambda _account: (),
    ) -> None:
        self._web_url = web_url
        self._outcome = outcome
        self._over = over
        self._additions = additions
        self._session = requests.Session()
        # The environment's proxies cannot reach a server on this machine.
        self._session.trust_env = False

    def __exit__(self, *_error: object) -> None:
        self._session.close()

    def log_in(self, api_key: str) -> None:
        """Obtain a token (section 5) and use it from now on. Raise MigrationError if the key is refused."""
        query = {"query": _LOG_IN, "variables": {"key": api_key}}
        response = self.send("POST", "/v1/graphql/", json=query)
        try:
            token = str(response.json()["data"]["obtainServiceToken"]["token"])
        except (ValueError, KeyError, TypeError) as error:
            raise MigrationError(f"no token was issued: {response.text[:300]}") from error
        self._session.headers["Authorization"] = f"Token {token}"

    def is_over(self) -> bool:
        """Return True if the service is being stopped, so that nothing new should start."""
        return self._over.is_set()

    def try_to_migrate(self, payload: dict[str, Any], team: str) -> None:
        """Migrate one account. A failure is recorded in the outcome."""
        try:
            self._migrate(payload, team)
        except (MigrationError, requests.RequestException) as error:
            self._outcome.fail(str(error))

    def _migrate(self, payload: dict[str, Any], team: str) -> None:
        """Validate, stage and process one account, then add data to it (section 4). Raise MigrationError."""
        number = payload["external_account_number"]
        self._step(number, "validate-account/", payload, "validated")
        self._step(number, "account-import-process/create-or-update/", payload, "staged")
        request = {
            "external_account_number": number,
            "import_supplier_code": payload["import_supplier"],
            "operations_team_name": team,
        }
        self._step(number, "account-import-process/process/", request, "processed")
        for addition in self._additions(payload):
            self._step(number, addition.path, addition.body, addition.done)
        self._outcome.last_account = number

    def _step(self, number: str, path: str, body: dict[str, Any], done: str) -> None:
        response = self.send("POST", f"/v1/data-import/{path}", json=body)
        if response.status_code in (requests.codes.ok, requests.codes.created):
            self._outcome.count(done)
            return
        if _code(response) == "account_already_imported":
            self._outcome.count("imported before")
            return
        raise MigrationError(f"{number} was not {done}: {response.status_code} {response.text[:300]}")

    def send(
        self, method: str, path: str, *, again: Collection[int] = _UNSETTLED, **request: Any
    ) -> requests.Response:
        """Return the response to a request. Retry the request while its status is in `again`.

        Raise MigrationError if it gets no response for two minutes, or the service is being stopped.
        """
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        while not self._over.is_set():
            pause = 1.0
            try:
                if "data" in request:
                    request["data"].seek(0)
                response = self._session.request(method, self._web_url + path, timeout=60, **request)
                unsettled = response.status_code in again or _code(response) == _IN_PROGRESS
                if not unsettled or time.monotonic() > deadline:
                    return response
                pause = float(response.headers.get("Retry-After", pause))
            except requests.ConnectionError as error:
                if time.monotonic() > deadline:
                    raise MigrationError(f"{path} cannot be reached: {error}") from error
            self._outcome.count("sent again")
            self._over.wait(pause)
        raise MigrationError("the service is stopping")


def migrate_book(
    accounts: Iterator[dict[str, Any]],
    make_client: Callable[[], SupplierClient],
    *,
    api_key: str,
    team: str,
    clients: int,
    on_each: Callable[[], None],
) -> None:
    """Migrate these account payloads with several clients in parallel. Record failures in the outcome."""
    taking = threading.Lock()

    def work() -> None:
        with make_client() as client:
            client.log_in(api_key)
            while not client.is_over():
                with taking:
                    payload = next(accounts, None)
                if payload is None:
                    return
                client.try_to_migrate(payload, team)
                on_each()

    with ThreadPoolExecutor(clients, thread_name_prefix="supplier") as pool:
        for finished in [pool.submit(work) for _ in range(clients)]:
            finished.result()


def _code(response: requests.Response) -> str:
    try:
        return str(response.json().get("code"))
    except (ValueError, AttributeError):
        return ""

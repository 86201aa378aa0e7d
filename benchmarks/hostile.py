"""Every trick of a hostile organisation at once, for `benchmarks.neighbours`: a program of its own.

Each trick is repeated without a pause until the time is up or SIGTERM comes. At the end
it prints as JSON how many answers a second it got, and how many of each trick and status. It only ever speaks
to the loopback address.

    python -m benchmarks.hostile NICENESS SECONDS CONNECTIONS URL KEY SUPPLIER TEAM PREFIX [TRICK...]

It leads a session of its own, of which NICENESS is the priority. Each trick has so many CONNECTIONS. `PREFIX`
is the beginning of a key of the other organisation.
"""

import gzip
import itertools
import json
import re
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from migration_service_local.samples import generate_accounts, generate_lines
from migration_service_local.servers.launch import leave_processors

_API = "/v1/data-import"
_JSON = {"Content-Type": "application/json"}
_NDJSON = {"Content-Type": "application/x-ndjson"}
_LOG_IN = "mutation($key: String!) { obtainServiceToken(input: {APIKey: $key}) { token refreshToken } }"
_REFRESH = "mutation($t: String!) { obtainServiceToken(input: {refreshToken: $t}) { token } }"
#: Connections of each trick that holds some.
_HELD = 40
#: Seconds for which it holds them, before it opens new ones.
_HOLD_SECONDS = 3.0
#: The address that the attackers come from: not that of the other organisation.
_ADDRESS = "127.0.0.2"


class _OwnAddress(HTTPAdapter):
    """Connects from _ADDRESS, and counts the answers."""

    answers = itertools.count()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options, source_address=(_ADDRESS, 0))

    def send(self, *arguments: Any, **options: Any) -> requests.Response:
        answer = super().send(*arguments, **options)
        next(self.answers)
        return answer


@dataclass
class Attacker:
    """Who attacks what; each thread has its own."""

    url: str
    api_key: str
    supplier: str
    team: str
    #: The beginning of a key of the other organisation.
    victims_prefix: str
    over: threading.Event
    seen: Counter[str]
    http: requests.Session = field(default_factory=requests.Session)
    token: str = ""

    def __post_init__(self) -> None:
        self.http.trust_env = False
        self.http.mount("http://", _OwnAddress())

    def log_in(self) -> dict[str, Any]:
        """Return new tokens, and use them from now on."""
        answer = self.graphql(_LOG_IN, key=self.api_key)
        tokens: dict[str, Any] = answer.json()["data"]["obtainServiceToken"]
        self.token = tokens["token"]
        self.http.headers["Authorization"] = f"Token {self.token}"
        return tokens

    def graphql(self, query: str, **variables: str) -> requests.Response:
        """Send a document to the interface for tokens."""
        body = {"query": query, "variables": variables}
        return self.http.post(f"{self.url}/v1/graphql/", json=body, timeout=90)

    def post(self, path: str, data: Any, headers: dict[str, str] = _JSON) -> requests.Response:
        """Send a body to the REST interface."""
        return self.http.post(f"{self.url}{_API}{path}", data=data, headers=headers, timeout=90)

    def upload(self, data: Any, **headers: str) -> requests.Response:
        """Start a batch that validates."""
        path = f"/batches/?import_supplier={self.supplier}&mode=validate"
        return self.post(path, data, _NDJSON | headers)

    def hold(self, count: int, start: bytes, piece: bytes = b"", pause: float = 1.0) -> int:
        """Open connections that send `start`, and then `piece` again and again. Return how many were closed.

        Nothing is ever read.
        """
        address = urlsplit(self.url)
        closed = 0
        with ExitStack() as stack:
            held = []
            for _ in range(count):
                connection = socket.create_connection(
                    (address.hostname, address.port), timeout=10, source_address=(_ADDRESS, 0)
                )
                held.append(stack.enter_context(connection))
                connection.sendall(start)
            until = time.monotonic() + _HOLD_SECONDS
            while time.monotonic() < until and not self.over.wait(pause):
                for connection in [*held] if piece else ():
                    try:
                        connection.sendall(piece)
                    except OSError:
                        held.remove(connection)
                        closed += 1
        return closed


Trick = Callable[[Attacker], Any]


def _body(data: bytes, path: str = "/validate-account/") -> Trick:
    return lambda attacker: attacker.post(path, data)


def _upload(data: bytes, **headers: str) -> Trick:
    return lambda attacker: attacker.upload(data, **headers)


def _equal_keys_without_a_token(attacker: Attacker) -> Any:
    data = b"{" + b",".join(b'"%d":1' % (i % 3_000) for i in range(7_000)) + b"}"
    return attacker.http.post(f"{attacker.url}/v1/graphql/", data=data, headers=_JSON, timeout=90)


def _bomb_in_a_body(attacker: Attacker) -> Any:
    return attacker.post("/validate-account/", _BOMB, _JSON | {"Content-Encoding": "gzip"})


def _wrong_keys(attacker: Attacker) -> Any:
    return attacker.graphql(_LOG_IN, key=f"{attacker.victims_prefix}_{'x' * 43}")


def _refresh_again_and_again(attacker: Attacker) -> Any:
    tokens = attacker.log_in()
    for _ in range(5):
        answer = attacker.graphql(_REFRESH, t=tokens["refreshToken"])
    return answer


def _nul_in_a_path(attacker: Attacker) -> Any:
    return attacker.http.get(f"{attacker.url}{_API}/account-transfer-status/%00/%00/", timeout=90)


def _half_open_heads(attacker: Attacker) -> Any:
    return attacker.hold(_HELD, b"POST /v1/graphql/ HTTP/1.1\r\nHost: x\r\n", b"X-A: b\r\n")


def _slow_uploads(attacker: Attacker) -> Any:
    start = (
        f"POST {_API}/batches/?import_supplier={attacker.supplier}&mode=validate HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Token {attacker.token}\r\n"
        "Content-Type: application/x-ndjson\r\nContent-Length: 100000000\r\n\r\n"
    )
    return attacker.hold(_HELD, start.encode(), b"{}\n" * 3_500)


def _slow_readers(attacker: Attacker) -> Any:
    request = (
        f"GET {_API}/all-account-import-processes/{attacker.supplier}/?limit=500 HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Token {attacker.token}\r\n\r\n"
    )
    return attacker.hold(_HELD, request.encode() * 20)


def _expensive_batches(attacker: Attacker) -> Any:
    line = b'{"customers":[%b]}\n' % b",".join([b"{}"] * 500)
    return attacker.upload(line * 200)


def _accounts(attacker: Attacker) -> Iterator[dict[str, Any]]:
    return generate_accounts(100_000, supplier=attacker.supplier, seed=5)


def _process_a_flood(attacker: Attacker) -> Any:
    """Stage an account, and ask eight times at once that it be created as a dry run."""
    account = next(_FLOOD.setdefault(attacker.supplier, _accounts(attacker)))
    answer = attacker.post("/account-import-process/create-or-update/", json.dumps(account))
    order = {
        "external_account_number": account["external_account_number"],
        "import_supplier_code": attacker.supplier,
        "operations_team_name": attacker.team,
        "dry_run": True,
    }
    threads = [
        threading.Thread(
            target=attacker.http.post,
            args=[f"{attacker.url}{_API}/account-import-process/process/"],
            kwargs={"json": order, "timeout": 90},
            daemon=True,
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answer


def _orders_that_do_not_wait(attacker: Attacker) -> Any:
    """Stage some accounts once, and order dry runs of them again and again."""
    numbers = _STAGED.setdefault(attacker.supplier, [])
    if not numbers:
        for account in itertools.islice(_accounts(attacker), 150):
            attacker.post("/account-import-process/create-or-update/", json.dumps(account))
            numbers.append(account["external_account_number"])
    order = {
        "external_account_number": numbers[next(_TURNS) % len(numbers)],
        "import_supplier_code": attacker.supplier,
        "operations_team_name": attacker.team,
        "dry_run": True,
    }
    path = "/account-import-process/process/"
    return attacker.post(path, json.dumps(order), _JSON | {"Prefer": "respond-async"})


def _erasures_of_nobody(attacker: Attacker) -> Any:
    """Erase an account that nobody has, which is searched for in every line that is kept."""
    body = {"import_supplier": attacker.supplier, "external_account_number": f"NOBODY-{next(_TURNS)}"}
    return attacker.post("/account-import-process/erase/", json.dumps(body | {"reason": "Asked for."}))


def _logins_without_a_password(attacker: Attacker) -> Any:
    """Log in to the console under names that nobody has."""
    page = attacker.http.get(f"{attacker.url}/console/login/", timeout=90)
    token = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', page.text)
    form = {"name": f"nobody {next(_TURNS)}", "password": "x" * 40, "csrf_token": token[1] if token else ""}
    return attacker.http.post(f"{attacker.url}/console/login/", data=form, timeout=90)


_STAGED: dict[str, list[str]] = {}
_TURNS = itertools.count()
_FLOOD: dict[str, Iterator[dict[str, Any]]] = {}
_BOMB = gzip.compress(b" " * 30_000_000)

TRICKS: dict[str, Trick] = {
    "equal keys": _body(b"{" + b",".join(b'"%d":1' % (i % 9_000) for i in range(18_000)) + b"}"),
    "equal keys without a token": _equal_keys_without_a_token,
    "depth": _body(b'{"a":' * 5_000 + b"1" + b"}" * 5_000),
    "exponent": _body(b'{"ledgers":[{"ledger_balance":0E-999999}]}'),
    "digits": _body(b'{"ledgers":[{"ledger_balance":1.%b}]}' % (b"0" * 20_000)),
    "errors": _body(b'{"customers":[%b]}' % b",".join([b"{}"] * 9_000)),
    "items": _body(b'{"customers":[%b]}' % b",".join([b"{}"] * 90_000)),
    "large body": _body(b'{"a":"%b"}' % (b"x" * 7_900_000)),
    "bomb in a body": _bomb_in_a_body,
    "bomb in a file": _upload(gzip.compress((b"x" * 1_000_000 + b"\n") * 30)),
    "file cut off": _upload(gzip.compress(b"{}\n" * 50_000)[:-9]),
    "one key for many": _upload(b"{}\n", **{"Idempotency-Key": "again"}),
    "expensive batches": _expensive_batches,
    "a book of its own": lambda attacker: attacker.upload(
        b"\n".join(itertools.islice(generate_lines(500, supplier=attacker.supplier, seed=6), 500))
    ),
    "a flood of orders": _process_a_flood,
    "orders that do not wait": _orders_that_do_not_wait,
    "erasures of nobody": _erasures_of_nobody,
    "logins without a password": _logins_without_a_password,
    "nul in a path": _nul_in_a_path,
    "nul in a member": _upload(b'{"un\\u0000known": 1, "customers": [{"\\u0000": 1}]}'),
    "wrong keys with the other's prefix": _wrong_keys,
    "tokens again and again": _refresh_again_and_again,
    "half-open heads": _half_open_heads,
    "slow uploads": _slow_uploads,
    "slow readers": _slow_readers,
}


def _repeat(name: str, trick: Trick, attacker: Attacker) -> None:
    try:
        attacker.log_in()
    except (requests.RequestException, KeyError, TypeError):
        attacker.seen[f"{name}: no token"] += 1
    while not attacker.over.is_set():
        try:
            answer = trick(attacker)
            outcome = answer.status_code if isinstance(answer, requests.Response) else f"{answer} closed"
        except (OSError, requests.RequestException, KeyError, TypeError, ValueError) as error:
            outcome = type(error).__name__
            attacker.over.wait(0.2)
        attacker.seen[f"{name}: {outcome}"] += 1


def main() -> None:
    """Attack for so many seconds, and print what was answered."""
    niceness, seconds, connections, url, *known = sys.argv[1:]
    (api_key, supplier, team, victims_prefix), only = known[:4], known[4:]
    if urlsplit(url).hostname != "127.0.0.1":
        sys.exit("Only a service on 127.0.0.1 is attacked.")
    leave_processors(int(niceness))
    over, seen = threading.Event(), Counter[str]()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    began = time.monotonic()
    for name in only or TRICKS:
        for _ in range(int(connections)):
            attacker = Attacker(url, api_key, supplier, team, victims_prefix, over, seen)
            threading.Thread(target=_repeat, args=[name, TRICKS[name], attacker], daemon=True).start()
    over.wait(float(seconds))
    over.set()
    rate = next(_OwnAddress.answers) / (time.monotonic() - began)
    time.sleep(1.5)  # for the answers that are on their way
    sys.stdout.write(json.dumps({"answers a second": rate, "seen": dict(seen)}))


if __name__ == "__main__":
    main()

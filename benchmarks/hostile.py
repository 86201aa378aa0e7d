"""Every operation of the description, ordered by one organisation as fast as it can, for `neighbours`.

The operations are drawn from /v1/openapi.json when the attack begins, so that a new endpoint is among them at
once. Names and ids come from what the organisation has been answered. Parameters, headers, and the kind and
size of bodies are chosen at random. The console's login, which is not described, is one more operation.

    python -m benchmarks.hostile NICENESS CONNECTIONS URL SUPPLIER TEAM KEYS PREFIX

It leads a session of its own, of which NICENESS is the priority. KEYS have commas between them. `PREFIX` is
the beginning of a key of the other organisation. It stops at SIGTERM, or when its parent is gone, and cancels
its batches. It only ever speaks to the loopback address.
"""

import gzip
import json
import os
import random
import re
import signal
import socket
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from uuid import uuid4

import requests
from requests.adapters import HTTPAdapter

from migration_service_local.samples import generate_accounts, write_lines

_LOG_IN = "mutation($key: String!) { obtainServiceToken(input: {APIKey: $key}) { token } }"
#: Where the organisation is, and where those are who guess keys and passwords for it. Neither is the address
#: of the other organisation.
_HERE, _ELSEWHERE = "127.0.0.2", "127.0.0.3"
#: Parameters and members that mean the same as one of another name.
_SAME = {
    "batch": "batch_id",
    "later_batch_id": "batch_id",
    "external_account_numbers": "external_account_number",
    "import_supplier": "import_supplier_code",
    "service_token": "token",
}
#: Parameters that a request has more often than others.
_USUAL = {"Prefer", "operations_team_name"}
#: How often a list of a body is repeated, up to so many bytes. With 0, only its last item is sent.
_TIMES, _MOST_BYTES = (*[1] * 12, *[0] * 4, 30, 1_000, 9_000), 2_000_000
_LOGIN_PAGE = "console_login"
#: What an attacker does: sends requests of every kind, gives each of them up, or leaves streams unread.
ORDERS, GIVES_UP, READS_NOTHING = "orders", "gives-up", "reads-nothing"
_TAKING = threading.Lock()


@dataclass(frozen=True)
class Operation:
    """An operation of the description."""

    name: str
    method: str
    path: str
    parameters: tuple[dict[str, Any], ...] = ()
    #: Examples of its body by media type.
    bodies: dict[str, Any] = field(default_factory=dict)
    #: The members of its body that the example leaves out.
    more: tuple[str, ...] = ()
    needs_token: bool = True


def read_operations(description: dict[str, Any]) -> list[Operation]:
    """Return every operation of a description, and the console's login."""
    found = [Operation(_LOGIN_PAGE, "post", "/console/login/", needs_token=False)]
    for path, item in description["paths"].items():
        for method in item.keys() & {"get", "put", "post", "patch", "delete"}:
            order = item[method]
            contents = order.get("requestBody", {}).get("content", {})
            reference = contents.get("application/json", {}).get("schema", {}).get("$ref", "")
            schema = description["components"]["schemas"].get(reference.rpartition("/")[2], {})
            example = contents.get("application/json", {}).get("example", {})
            found.append(
                Operation(
                    order["operationId"],
                    method,
                    path,
                    tuple(item.get("parameters", []) + order.get("parameters", [])),
                    {media: content.get("example", {}) for media, content in contents.items()},
                    tuple(schema.get("properties", {}).keys() - example.keys()),
                    needs_token=order.get("security") != [],
                )
            )
    return found


class Known:
    """Names and ids of the organisation's own data, by the name of the parameter that takes them."""

    def __init__(self, supplier: str, team: str, keys: list[str]) -> None:
        self._values: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=200))
        self._fixed = {"import_supplier_code": [supplier], "operations_team_name": [team], "APIKey": keys}

    def learn(self, value: Any) -> None:
        """Take the ids out of an answer, or out of a body that was sent."""
        for item in value[:50] if isinstance(value, list) else ():
            self.learn(item)
        for name, item in value.items() if isinstance(value, dict) else ():
            if isinstance(item, str) and (
                name.endswith("_id") or name in {"external_account_number", "cursor"}
            ):
                self._values[name].append(item)
            self.learn(item)

    def choose(self, name: str) -> str | None:
        """Return a value for a parameter or member of this name, or None if there is none."""
        name = _SAME.get(name, name)
        values = self._fixed.get(name) or self._values.get(name)
        return random.choice(values) if values else None

    def fill(self, value: Any, name: str = "") -> Any:
        """Return the example of a body with values of the organisation's own."""
        if isinstance(value, dict):
            return {below: self.fill(item, below) for below, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item, name) for item in value]
        if isinstance(value, bool):
            return random.choice((True, True, True, False))  # a dry run leaves something to do
        return (isinstance(value, str) and self.choose(name)) or value


class Attacker:
    """One connection, and what it sends. All share what is known, the files and the counts."""

    def __init__(
        self, url: str, known: Known, files: list[bytes], accounts: Iterator[dict[str, Any]], prefix: str
    ) -> None:
        self.url, self.known, self.files, self.accounts, self.prefix = url, known, files, accounts, prefix
        self.here, self.elsewhere = _session(_HERE), _session(_ELSEWHERE)
        self._batches = f"{url}/v1/data-import/batches/"
        #: Seconds for which it waits for an answer.
        self.patience = 90.0

    def log_in(self) -> None:
        """Obtain a token, and use it from now on."""
        body = {"query": _LOG_IN, "variables": {"key": self.known.choose("APIKey")}}
        answer = self.here.post(f"{self.url}/v1/graphql/", json=body, timeout=90).json()
        self.here.headers["Authorization"] = f"Token {answer['data']['obtainServiceToken']['token']}"

    def order(self, operation: Operation) -> requests.Response:
        """Send a request of an operation, and learn from the answer."""
        if operation.name == _LOGIN_PAGE:
            return self._log_in_to_the_console()
        path = operation.path
        query: dict[str, str] = {}
        headers: dict[str, str] = {}
        chance = random.choice((0, 0, 0.2))
        for parameter in operation.parameters:
            name, place = parameter["name"], parameter["in"]
            if place == "path":
                path = path.replace(f"{{{name}}}", quote(str(self._value(parameter)), safe=""))
            elif parameter.get("required") or random.random() < (0.8 if name in _USUAL else chance):
                (query if place == "query" else headers)[name] = str(self._value(parameter))
        data, more = self._body(operation)
        http = self.here if operation.needs_token else self.elsewhere
        answer = http.request(
            *(operation.method, self.url + path),
            params=query,
            data=data,
            headers=headers | more,
            timeout=self.patience,
        )
        if answer.status_code == 401 and operation.needs_token:
            self.log_in()
        if "next" in answer.links:
            self.known.learn({"cursor": parse_qs(urlsplit(answer.links["next"]["url"]).query)["cursor"][0]})
        if answer.ok and "json" in answer.headers.get("Content-Type", ""):
            lines = answer.text.splitlines() if "ndjson" in answer.headers["Content-Type"] else [answer.text]
            with suppress(ValueError):  # failed lines are returned as they were sent
                self.known.learn([json.loads(line) for line in lines[:50] if line])
        return answer

    def leave_events_unread(self, over: threading.Event) -> None:
        """Ask for all events, and read none of them for some seconds."""
        self.log_in()
        address = urlsplit(self.url)
        with socket.create_connection((str(address.hostname), address.port or 80)) as connection:
            token = self.here.headers["Authorization"]
            head = (
                f"GET /v1/data-import/events/ HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: {token!s}"
            )
            connection.sendall(f"{head}\r\nAccept: application/x-ndjson\r\n\r\n".encode())
            over.wait(5)

    def begin(self, operations: list[Operation]) -> None:
        """Log in, create some accounts and stage others, and learn ids from an answer of each operation."""
        self.log_in()
        asked = {name: str(self.known.choose(name)) for name in ("import_supplier", "operations_team_name")}
        media = {"Content-Type": "application/x-ndjson"}
        for mode, book in (("import", self.files[1]), ("stage", self.files[3])):
            asked["mode"] = mode
            batch = self.here.post(self._batches, params=asked, data=book, headers=media, timeout=90).json()
            while batch["state"] != "COMPLETED":
                time.sleep(0.5)
                batch = self.here.get(f"{self._batches}{batch['batch_id']}/", timeout=90).json()
        for operation in operations * 2:
            with suppress(OSError):  # a body that was refused before its end
                self.order(operation)

    def cancel_batches(self) -> None:
        """Leave nothing behind that workers have to do."""
        self.log_in()
        for batch in self.here.get(self._batches, params={"limit": 500}, timeout=90).json():
            self.here.post(f"{self._batches}{batch['batch_id']}/cancel/", timeout=90)

    def _value(self, parameter: dict[str, Any]) -> Any:
        name, schema = parameter["name"], parameter["schema"]
        if name == "Prefer":
            return random.choice(("respond-async", "wait=0", "wait=1", "wait=30"))
        if name == "Idempotency-Key":
            return random.choice((f"again-{random.randrange(5)}", str(uuid4())))
        if "enum" in schema:
            return random.choice(schema["enum"])
        if schema["type"] == "boolean":
            return random.choice(("true", "false"))
        if schema["type"] == "integer":
            return random.choice((0, 1, 2, 100, schema.get("maximum", 3)))
        formats = {"uuid": uuid4(), "date-time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        return self.known.choose(name) or formats.get(schema.get("format"), "5")

    def _body(self, operation: Operation) -> tuple[bytes | None, dict[str, str]]:
        if not operation.bodies:
            return None, {}
        media, example = random.choice([*operation.bodies.items()])
        if media != "application/json":
            data = random.choice(self.files)
            return gzip.compress(data, 1) if "gzip" in media else data, {"Content-Type": media}
        body = self.known.fill(example)
        if "customers" in body:
            with _TAKING:
                body |= next(self.accounts)
        elif not operation.needs_token and random.random() < 0.5:
            body["variables"] = {"input": {"APIKey": f"{self.prefix}_{'x' * 43}"}}
        others = [name for name in operation.more if self.known.choose(name)]
        if others and random.random() < 0.3:  # such as accounts instead of a batch
            body.pop(random.choice([*body]))
            name = random.choice(others)
            values = [self.known.choose(name) for _ in range(random.choice((1, 5, 50)))]
            body[name] = values if name.endswith("s") else values[0]
        if (times := random.choice(_TIMES)) != 1:
            lists = {name: it for name, it in body.items() if isinstance(it, list) and it} or {"more": [{}]}
            name, items = random.choice([*lists.items()])
            most = min(times, 1 + _MOST_BYTES // len(json.dumps(items)))
            body[name] = items * most or items[-1:]
        data = json.dumps(body).encode()
        if random.random() < 0.1:
            return gzip.compress(data, 1), {"Content-Type": media, "Content-Encoding": "gzip"}
        return data, {"Content-Type": media}

    def _log_in_to_the_console(self) -> requests.Response:
        page = self.elsewhere.get(f"{self.url}/console/login/", timeout=90)
        token = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', page.text)
        form = {"name": f"nobody {uuid4()}", "password": "x" * 40, "csrf_token": token[1] if token else ""}
        return self.elsewhere.post(f"{self.url}/console/login/", data=form, timeout=90)


def _session(address: str) -> requests.Session:
    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
            super().init_poolmanager(*arguments, **options, source_address=(address, 0))

    http = requests.Session()
    http.trust_env = False
    http.mount("http://", Adapter())
    return http


def _make_files(supplier: str, operations: list[Operation], known: Known) -> list[bytes]:
    """Return files of batches: of accounts, of every body of the description, and of what is expensive."""
    examples = [it.bodies["application/json"] for it in operations if "application/json" in it.bodies]
    bodies = [json.dumps(known.fill(example)).encode() for example in examples]
    accounts = [
        b"\n".join(write_lines(generate_accounts(lines, supplier=supplier, seed=seed)))
        for seed, lines in enumerate((1, 20, 200, 500))
    ]
    errors = b'{"customers":[%b]}' % b",".join([b"{}"] * 500)
    return [
        *accounts,
        b"\n".join(bodies * 20),
        b"\n".join([errors] * 200),
        b"\n".join([b"x" * 1_000] * 5_000),
    ]


def _leave_processors(niceness: int) -> None:
    """Lower the priority of this process, which leads its own session."""
    os.nice(niceness)
    try:
        # Linux may first share the processors among sessions. Niceness then counts only within a session.
        autogroup = os.open("/proc/self/autogroup", os.O_WRONLY)
        os.write(autogroup, str(niceness).encode())
        os.close(autogroup)
    except OSError:
        pass  # it does not


def main() -> None:
    """Attack until SIGTERM comes."""
    niceness, connections, manner, url, supplier, team, keys, prefix = sys.argv[1:]
    if urlsplit(url).hostname != "127.0.0.1":
        sys.exit("Only a service on 127.0.0.1 is attacked.")
    _leave_processors(int(niceness))
    parent = os.getppid()
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    known = Known(supplier, team, keys.split(","))
    every = read_operations(requests.get(f"{url}/v1/openapi.json", timeout=90).json())
    files = _make_files(supplier, every, known)

    def attack(attacker: Attacker) -> None:
        attacker.patience = 0.3 if manner == GIVES_UP else attacker.patience
        while not over.is_set():
            try:
                if manner == READS_NOTHING:
                    attacker.leave_events_unread(over)
                else:
                    attacker.order(random.choice(every))
            except (OSError, ValueError, KeyError, TypeError):
                over.wait(0.2)

    accounts = generate_accounts(1_000_000, supplier=supplier, seed=random.randrange(10**6))
    first, *others = [Attacker(url, known, files, accounts, prefix) for _ in range(int(connections) + 1)]
    first.begin(every)
    for attacker in others:
        threading.Thread(target=attack, args=[attacker], daemon=True).start()
    sys.stdout.write("attacking\n")
    sys.stdout.flush()
    while not over.wait(1.0) and os.getppid() == parent:
        pass
    over.set()
    time.sleep(1.5)  # for the answers that are on their way
    first.cancel_batches()


if __name__ == "__main__":
    main()

"""A sandbox vendor for trials and tests: `python -m migration_service_local.sandbox --port 8090`.

It offers the plain JSON interface of docs/operators/payment-vendors.md on the loopback address. The reference
determines the response. It has the form `<kind>-<behaviour>-<anything>`, for example `card-ok-1` or
`sepa-refuse-7`.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import click

#: The variable that can hold the secret instead of `--secret`, which the list of processes would show.
SANDBOX_VARIABLE = "SANDBOX_VENDOR_SECRET"

_PREFIX = "/payment-instructions/"
_TYPES = {"card": "CARD", "sepa": "SEPA_DEBIT"}
_DETAILS: dict[str, dict[str, str | int]] = {
    "CARD": {"brand": "visa", "last_four_digits": "4242", "expiry_month": 12, "expiry_year": 2030},
    "SEPA_DEBIT": {"last_four_digits": "4300", "country": "NL", "bank_name": "Sandbox Bank"},
}
_UNKNOWN = (404, {"error": "unknown instruction"})
#: The status and the body by the second part of the reference. Any other part is an unknown instruction.
_ERRORS: dict[str, tuple[int, Any]] = {
    "error": (503, {"error": "out of order"}),
    "busy": (429, {"error": "too many requests"}),
    "unauthorised": (401, {"error": "wrong credentials"}),
    "nonsense": (200, ["not", "an", "instruction"]),
}
#: Longer than any client waits.
_FOR_EVER_SECONDS = 3600.0


class SandboxServer(ThreadingHTTPServer):
    """Listens on 127.0.0.1.

    If `secret` is set, requests without it as their bearer token get a 401.
    """

    daemon_threads = True

    def __init__(self, port: int = 0, secret: str | None = None) -> None:
        super().__init__(("127.0.0.1", port), _SandboxHandler)
        self.secret = secret
        self.lock = threading.Lock()
        self.times_asked: Counter[str] = Counter()

    def count(self, reference: str) -> int:
        """Count a request for the reference. Return the number of requests so far, including this one."""
        with self.lock:
            self.times_asked[reference] += 1
            return self.times_asked[reference]


class _SandboxHandler(BaseHTTPRequestHandler):
    server: SandboxServer
    protocol_version = "HTTP/1.1"
    # Headers and body are written separately. The second write would wait for the first one's
    # acknowledgement.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        expected = f"Bearer {self.server.secret}"
        if self.server.secret is not None and self.headers.get("Authorization") != expected:
            self._answer(401, {"error": "wrong credentials"})
        elif not path.startswith(_PREFIX):
            self._answer(404, {"error": "not found"})
        else:
            self._behave(unquote(path.removeprefix(_PREFIX)))

    def _behave(self, reference: str) -> None:
        kind, _, rest = reference.partition("-")
        behaviour = rest.partition("-")[0]
        if kind in _TYPES and behaviour in BEHAVIOURS:
            BEHAVIOURS[behaviour](self, reference, _TYPES[kind])
        else:
            self._answer(*_ERRORS.get(behaviour if kind in _TYPES else "", _UNKNOWN))

    def _ok(self, reference: str, instruction_type: str, status: str = "ACTIVE", **further: str) -> None:
        self._answer(
            200,
            {
                "reference": reference,
                "type": instruction_type,
                "status": status,
                "details": _DETAILS[instruction_type],
                **further,
            },
        )

    def _expired(self, reference: str, instruction_type: str) -> None:
        self._ok(reference, instruction_type, "EXPIRED")

    def _account(self, reference: str, instruction_type: str) -> None:
        # card-account-<number>: the instruction is for this account.
        self._ok(reference, instruction_type, account_reference=reference.split("-", 2)[2])

    def _customer(self, reference: str, instruction_type: str) -> None:
        # card-customer-<name>-<anything>: the instruction belongs to this customer of the vendor.
        self._ok(reference, instruction_type, customer_reference=reference.split("-", 3)[2])

    def _flaky(self, reference: str, instruction_type: str) -> None:
        if self.server.count(reference) % 2:
            self._answer(*_ERRORS["error"])
        else:
            self._ok(reference, instruction_type)

    def _redirect(self, reference: str, instruction_type: str) -> None:
        self._answer(302, {}, {"Location": "/elsewhere"})

    def _hang(self, reference: str, instruction_type: str) -> None:
        time.sleep(_FOR_EVER_SECONDS)

    def _cut(self, reference: str, instruction_type: str) -> None:
        self._start_body(1000)
        self.wfile.write(b'{"reference": ')
        self.close_connection = True

    def _drip(self, reference: str, instruction_type: str) -> None:
        self._start_body(1_000_000)
        for _ in range(1_000_000):
            self.wfile.write(b" ")
            time.sleep(0.05)

    def _answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self._start_body(len(content), status, headers or {})
        self.wfile.write(content)

    def _start_body(self, length: int, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            # The client has disconnected, as it should after a long wait.
            self.close_connection = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing. The log of `up` is for the service."""


#: The other behaviours by the second part of the reference.
BEHAVIOURS: dict[str, Callable[[_SandboxHandler, str, str], None]] = {
    "ok": _SandboxHandler._ok,
    "expired": _SandboxHandler._expired,
    "account": _SandboxHandler._account,
    "customer": _SandboxHandler._customer,
    "flaky": _SandboxHandler._flaky,
    "redirect": _SandboxHandler._redirect,
    "hang": _SandboxHandler._hang,
    "cut": _SandboxHandler._cut,
    "drip": _SandboxHandler._drip,
}


@click.command()
@click.option("--port", type=int, default=8090, show_default=True, help="0 takes a free one.")
@click.option(
    "--secret", envvar=SANDBOX_VARIABLE, help="Refuse requests that do not have this as their bearer token."
)
def main(port: int, secret: str | None) -> None:
    """Print the address of the sandbox vendor, and serve it on 127.0.0.1 until stopped."""
    server = SandboxServer(port, secret)
    click.echo(f"http://127.0.0.1:{server.server_port}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()

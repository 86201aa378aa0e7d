"""The web process's part of a request, with callers and suppliers in memory and with look-ups.

`DATABASE_URL=... REDIS_URL=... MIGRATION_SERVICE_SECRET_KEY=... python -m benchmarks.reference_data`

These are the measurements of decision 10. The database must have the tables, and may be empty otherwise. Both
ways are in one process and take turns, so that a busy machine slows both alike. The time is processor time
of the process, that of the listening thread included. The ratios of one run say more than its milliseconds.
"""

import os
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flask import Flask
from werkzeug.datastructures import Headers
from werkzeug.test import EnvironBuilder, run_wsgi_app

from migration_service.app import create_app
from migration_service.blueprints.resources import resources
from migration_service.config import Settings
from migration_service.schemas.json import encode_json
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.access.tokens import obtain_tokens
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service_local.samples import generate_accounts

_BLOCKS = 40
_REQUESTS = 40
_API = "/v1/data-import"

#: Sends one request to an application.
Send = Callable[[Flask], None]


def prepare(app: Flask) -> dict[str, Send]:
    """Create an organisation, and return what is measured."""
    with app.app_context():
        shared = resources()
    code = f"BENCH_{secrets.token_hex(4)}"
    with shared.Session.begin() as session:
        create_organisation(session, code)
        create_import_supplier(session, code=code, organisation_name=code)
        key = issue_api_key(session, organisation_name=code)
    with shared.Session.begin() as session:
        token = obtain_tokens(session, shared.settings, key).token
    (account,) = generate_accounts(1, supplier=code, seed=1)
    body = encode_json(account)
    number = account["external_account_number"]

    def post(path: str) -> Send:
        return lambda app: _send(app, "POST", path, token, body)

    return {
        "stage": post("/account-import-process/create-or-update/"),
        "validate": post("/validate-account/"),
        "status": lambda app: _send(app, "GET", f"/account-transfer-status/{code}/{number}/", token, b""),
    }


def _send(app: Flask, method: str, path: str, token: str, body: bytes) -> None:
    headers = Headers({"Authorization": f"Token {token}"})
    environ = EnvironBuilder(
        _API + path, method=method, data=body, headers=headers, content_type="application/json"
    ).get_environ()
    answer, status, _ = run_wsgi_app(app, environ)
    text = b"".join(answer)
    if not status.startswith("20"):
        raise RuntimeError(f"{path}: {status} {text[:300]!r}")


def measure(send: Send, ways: dict[str, Flask]) -> dict[str, list[float]]:
    """Return the milliseconds of one request in each block, by way."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for app in ways.values():
        _send_for(send, app, 2.0)  # until what can be kept is kept, and statements are prepared
    for _ in range(_BLOCKS):
        for name, app in ways.items():
            began = time.process_time()
            for _ in range(_REQUESTS):
                send(app)
            found[name].append((time.process_time() - began) / _REQUESTS * 1000)
    return found


def _send_for(send: Send, app: Flask, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        send(app)


def main(environ: Any = os.environ) -> None:
    """Print the median of each way and the ratio of the blocks, with their quartiles."""
    settings = Settings.from_env(environ)
    ways = {
        "looked up": create_app(replace(settings, reference_lease_seconds=0.0)),
        "kept": create_app(replace(settings, reference_lease_seconds=1.0)),
    }
    print(f"load average {os.getloadavg()[0]:.1f}")
    for name, send in prepare(ways["kept"]).items():
        found = measure(send, ways)
        ratios = [new / old for old, new in zip(found["looked up"], found["kept"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        medians = ", ".join(f"{way} {statistics.median(times):.2f} ms" for way, times in found.items())
        print(f"{name:9} {medians}; ratio {middle:.2f} ({low:.2f} to {high:.2f})")
    for app in ways.values():
        with app.app_context():
            resources().reference.close()


if __name__ == "__main__":
    main()

"""Real payment vendors, each as its own process: the sandbox, and localstripe."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

from sqlalchemy.orm import Session, sessionmaker

from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup.vendors import create_payment_vendor
from support.servers import running

SANDBOX_SECRET = "the-sandbox-secret"
#: The variable that has the secret where the fixture `sandbox_url` is used.
SANDBOX_VARIABLE = "TEST_SANDBOX_VARIABLE"


@contextlib.contextmanager
def run_sandbox() -> Iterator[str]:
    """Run the sandbox vendor on a free port, and yield its URL."""
    sandbox = (sys.executable, "-m", "migration_service_local.sandbox")
    command = (*sandbox, "--port", "0", "--secret", SANDBOX_SECRET)
    with running(*command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
        process.stdout.close()


def make_sandbox_vendor(
    sessions: sessionmaker[Session], url: str, *, name: str = "", variable: str = SANDBOX_VARIABLE
) -> str:
    """Set up the sandbox as a vendor with a new name, which has its own circuit breaker. Return the name."""
    name = name or f"vendor {uuid4().hex[:8]}"
    with sessions.begin() as session:
        create_payment_vendor(session, name, kind=VendorKind.HTTP, url=url, secret_env=variable)
    return name


@contextlib.contextmanager
def run_localstripe() -> Iterator[str]:
    """Run localstripe, a Stripe server double, and yield its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = (sys.executable, "-m", "localstripe", "--port", str(port), "--from-scratch")
    with running(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        _wait_until_listening(port)
        yield f"http://127.0.0.1:{port}"


def _wait_until_listening(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")

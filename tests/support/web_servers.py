"""A web server of its own for a test, which the test may stop, and nginx in front of one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from migration_service.config import Settings
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.servers import running, temporary_folder, wait_until

ROOT = Path(__file__).parents[2]
#: Debian has them in a folder that is not in everybody's path.
_PATH = f"{os.environ['PATH']}:/usr/sbin"
HAPROXY = shutil.which("haproxy", path=_PATH)
NGINX = shutil.which("nginx", path=_PATH)
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx-light")


@contextmanager
def web_server(
    settings: Settings,
    bind: int | Path,
    variables: Mapping[str, str] = {},
    *,
    processes: int = 2,
    threads: int = 20,
    log: Path = Path(os.devnull),
    root: Path = ROOT,
    python: str = sys.executable,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a web server on a port or a Unix socket until it is stopped. It has no balancer to leave first.

    `variables` are further ones of its environment. Another version has its own `root` and `python`.
    """
    environment = os.environ | {
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "MIGRATION_SERVICE_SECRET_KEY": settings.secret_key,
        "MIGRATION_SERVICE_HOME": str(settings.home),
        "MIGRATION_SERVICE_LEAVE_SECONDS": "0",
    }
    command = (
        *(python, "-m", "migration_service.web_server"),
        *("--bind", f"unix:{bind}" if isinstance(bind, Path) else f"{LOOPBACK}:{bind}"),
        *("--processes", str(processes), "--threads", str(threads)),
    )
    environment |= variables
    with log.open("ab") as errors, running(*command, cwd=root, env=environment, stderr=errors) as server:
        wait_until(bind.exists if isinstance(bind, Path) else lambda: is_answered(bind), "the web server")
        if isinstance(bind, Path) and NGINX and os.getuid() == 0:
            # As docs/operators/install.md makes nginx a member of the service's group.
            shutil.chown(bind, group="www-data")
        yield server


@contextmanager
def nginx(bind: int | Path, *further: tuple[str, str], secrets: Path | None = None) -> Iterator[int]:
    """Run nginx as the project configures it in front of a web server. Yield its port.

    `further` has texts of the configuration, and what replaces them. `secrets` is the folder of the
    certificate; without it there is no TLS.
    """
    folder, port = temporary_folder(), random_free_port()
    text = (ROOT / "deployment/nginx/nginx.conf").read_text()
    here = "".join(f"    {name}_temp_path {folder / name};\n" for name in ("client_body", "proxy"))
    web = f"unix:{bind}:" if isinstance(bind, Path) else f"{LOOPBACK}:{bind}"
    tls = [line for line in text.splitlines() if line.strip().startswith("ssl_")]
    for before, after in (
        ("http {\n", f"http {{\n{here}"),
        ("listen 8443 ssl;", f"listen {LOOPBACK}:{port}{' ssl' if secrets else ''};"),
        ("set $web web:8000;", f"set $web {web};"),
        *([("/run/secrets", str(secrets))] if secrets else [(line, "") for line in tls]),
        *further,
    ):
        assert before in text
        text = text.replace(before, after)
    (folder / "nginx.conf").write_text(text.replace("/var/log/nginx", str(folder)))
    directives = f"daemon off; pid {folder}/nginx.pid;"
    with running(str(NGINX), "-e", "stderr", "-c", str(folder / "nginx.conf"), "-g", directives):
        certificate = str(secrets / "TLS_CERTIFICATE") if secrets else None
        wait_until(lambda: is_answered(port, certificate=certificate), "nginx and the web server")
        yield port
    shutil.rmtree(folder)


@contextmanager
def proxied_web_server(
    settings: Settings,
    variables: Mapping[str, str] = {},
    *further: tuple[str, str],
    **options: Any,
) -> "Iterator[tuple[int, subprocess.Popen[bytes]]]":
    """Run a web server behind nginx, with these options. Yield the port of nginx and the web server."""
    folder = temporary_folder()
    trusting = {"MIGRATION_SERVICE_TRUSTED_PROXIES": "1", **variables}
    with (
        web_server(settings, folder / "web.sock", trusting, **options) as server,
        nginx(folder / "web.sock", *further) as port,
    ):
        yield port, server
    shutil.rmtree(folder)


def is_answered(port: int, timeout: float = 2.0, *, certificate: str | None = None) -> bool:
    """Return True if a request is answered before any held thread could become free."""
    url = f"http{'s' if certificate else ''}://{LOOPBACK}:{port}/health/live"
    try:
        return requests.get(url, timeout=timeout, verify=certificate or True).ok
    except requests.RequestException:
        return False

"""What happens to every request before its view: a missing slash at the end is added, the host is checked."""

from collections.abc import Callable
from typing import Any

from flask import Flask, Request, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter, RequestRedirect
from werkzeug.sansio.utils import get_host

from migration_service.config import Settings
from migration_service.errors import HostNotAllowedError

#: Requested by load balancers and orchestrators, which address a process by its IP address.
_ANY_HOST = "/health/"


class Application(Flask):
    """A Flask application that answers a path with and without the slash at its end.

    Flask would redirect to the path with the slash. Behind a proxy the address of such a redirect is wrong.
    """

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Return the adapter that finds the view of `request`."""
        adapter = super().create_url_adapter(request)
        if request is None or adapter is None:
            return adapter
        if adapter.path_info.endswith("/") and _sent_path(request).upper().endswith("%2F"):
            adapter.path_info += "/"  # the slash that is there belongs to a number
        if not adapter.path_info.endswith("/") or adapter.path_info.endswith("//"):
            try:
                adapter.match()
            except RequestRedirect:
                adapter.path_info += "/"
            except HTTPException:
                pass  # Flask raises the same exception, and handles it
        return adapter

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return `func`. Flask would look more than ten times in each request whether a function is async."""
        return func


def _sent_path(request: Request) -> str:
    """Return the path of a request as the client encoded it."""
    return str(request.environ.get("RAW_URI", "")).partition("?")[0]


def check_requests(app: Flask, settings: Settings) -> None:
    """Refuse requests of `app` that name another host than the allowed ones."""
    allowed = {name.strip("[] ").lower() for name in settings.allowed_hosts.split(",")} - {""}

    @app.before_request
    def check() -> None:
        if allowed and not request.path.startswith(_ANY_HOST) and _host_name() not in allowed:
            raise HostNotAllowedError


def _host_name() -> str:
    """Return the host of the Host header without its port."""
    host = get_host("http", request.headers.get("Host"))
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.strip("[]").lower()

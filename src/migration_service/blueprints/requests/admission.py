"""Handling of every request before its view: add a missing trailing slash, check the host and the path."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flask import Flask, Request, Response, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter, RequestRedirect
from werkzeug.sansio.utils import get_host

from migration_service.blueprints.requests.body import INTERFACE
from migration_service.blueprints.requests.holding import wait_to_repeat
from migration_service.blueprints.requests.numbers_in_paths import require_text_in_path
from migration_service.config import Settings
from migration_service.errors import HostNotAllowedError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

#: The paths for load balancers, orchestrators and Prometheus, which address a process by its IP address.
_ANY_HOST = ("/health/", "/metrics")


class WholeResponse(Response):
    """A response that the web server gets as a list, and so sends at once, unless it is streamed."""

    def get_app_iter(self, environ: "WSGIEnvironment") -> Iterable[bytes]:
        """Return the pieces of the body."""
        pieces = super().get_app_iter(environ)
        if self.is_streamed:
            return pieces
        with self:  # which calls what has to be called at the end
            return [*pieces]


class Application(Flask):
    """A Flask application that answers a path with and without its trailing slash.

    Flask would redirect to the path with the slash. Behind a proxy, such a redirect has the wrong address.
    After an encoded slash, which belongs to an account number, nginx adds the trailing one.
    """

    response_class = WholeResponse

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Return the adapter that finds the view of `request`."""
        adapter = super().create_url_adapter(request)
        if request is None or adapter is None:
            return adapter
        if not adapter.path_info.endswith("/") or adapter.path_info.endswith("//"):
            try:
                adapter.match()
            except RequestRedirect:
                adapter.path_info += "/"
            except HTTPException:
                pass  # Flask raises the same exception, and handles it
        return adapter

    def handle_user_exception(self, e: Exception) -> ResponseReturnValue:
        """Return the answer to a request that raised `e`, or to its repetition on the next primary server."""
        while wait_to_repeat(e):
            try:
                answer = self.preprocess_request()
                return self.dispatch_request() if answer is None else answer
            except Exception as error:
                e = error
        return super().handle_user_exception(e)

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return `func`. Flask would check more than ten times per request whether a function is async."""
        return func


def check_requests(app: Flask, settings: Settings) -> None:
    """Let `app` refuse requests whose host is not allowed, or whose path is not text.

    The interface checks the names in its paths after the token (`interface.make_blueprint`).
    """
    allowed = {name.strip("[] ").lower() for name in settings.allowed_hosts.split(",")} - {""}

    @app.before_request
    def check() -> None:
        if allowed and not request.path.startswith(_ANY_HOST) and _host_name() not in allowed:
            raise HostNotAllowedError
        if request.routing_exception or not request.path.startswith(INTERFACE):
            require_text_in_path()


def _host_name() -> str:
    """Return the host of the Host header without its port."""
    host = get_host("http", request.headers.get("Host"))
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.strip("[]").lower()

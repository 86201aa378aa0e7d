"""What differs from Flask: paths without their trailing slash, account numbers in paths, whole answers."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from flask import Flask, Request, Response
from flask.globals import request_ctx
from flask.typing import ResponseReturnValue
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter, PathConverter, RequestRedirect, Rule
from werkzeug.routing.rules import RulePart

from migration_service.blueprints.requests.holding import wait_to_repeat
from migration_service.errors import ErrorItem, RequestFailedValidationError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

#: Operations below this path refuse unknown query parameters. Monitors, browsers and GraphQL clients may add
#: parameters to other paths.
INTERFACE = "/v1/data-import/"
#: Headers that Werkzeug corrects, and the statuses of responses without a body.
_CORRECTED, _EMPTY = frozenset({"location", "content-location"}), (204, 304)
_NOT_TEXT = "\N{REPLACEMENT CHARACTER}"


class WholeResponse(Response):
    """A response that the web server gets as a list, and so sends at once, unless it is streamed."""

    def get_wsgi_headers(self, environ: "WSGIEnvironment") -> Headers:
        """Return the headers. Werkzeug would check and copy each one, even if there is nothing to correct."""
        names = {name.lower() for name, _ in self.headers}
        if "content-length" in names and _CORRECTED.isdisjoint(names) and self.status_code not in _EMPTY:
            return self.headers
        return super().get_wsgi_headers(environ)

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
        if request is None:
            return super().create_url_adapter(request)
        # As Flask does it for an application whose routes do not depend on the host.
        adapter = self.url_map.bind(
            request.host,
            request.root_path,
            url_scheme=request.scheme,
            default_method=request.method,
            path_info=request.path,
            query_args=request.query_string.decode("latin1"),
        )
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


class NumberRule(Rule):
    """A URL rule for paths in which a number that ends in a slash precedes the trailing slash."""

    def _parse_rule(self, rule: str) -> Iterable[RulePart]:
        for part in super()._parse_rule(rule):
            yield replace(part, content=part.content.replace("(?<!/)(/?)", "(/?)"))


class NumberConverter(PathConverter):
    """An external account number in a path: any text, including slashes and line feeds."""

    regex = r"[\s\S]+?"
    part_isolating = False


class LinkedNumberConverter(NumberConverter):
    """An account number in the links of pages, encoded twice.

    The number `a/skip` is then not mistaken for the page to skip `a`, nor `..` for the parent folder.
    """

    def to_python(self, value: str) -> str:
        """Return the number in a path."""
        return unquote(value)

    def to_url(self, value: str) -> str:
        """Return a number as part of a path."""
        once = quote(value, safe="")
        return quote(once if once.strip(".") else once.replace(".", "%2E"), safe="")


def require_text_in_path() -> None:
    """Raise RequestFailedValidationError if the path has a NUL, or bytes that are not UTF-8.

    PostgreSQL takes no NUL. Half of a surrogate pair is not UTF-8.
    """
    asked = request_ctx.request
    is_text = _is_text(asked.environ["PATH_INFO"])
    names: list[str | None] = [
        name
        for name, text in (asked.view_args or {}).items()
        if isinstance(text, str) and ("\0" in text or (not is_text and _NOT_TEXT in text))
    ]
    if names or not is_text or "\0" in asked.path:
        detail = "The path has a NUL, or bytes that are not UTF-8."
        items = [ErrorItem("invalid_characters", detail, name) for name in names or [None]]
        raise RequestFailedValidationError(errors=items)


def _is_text(path: str) -> bool:
    try:
        path.encode("latin-1").decode()
    except UnicodeError:
        return False
    return True

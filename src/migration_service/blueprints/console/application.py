"""Creates the console: a Flask application that `app.create_app` mounts at /console/.

Its errors are pages, which say what happened and what to do next.
"""

import hmac
import logging
import time
from contextvars import copy_context
from datetime import timedelta
from hashlib import sha256
from http import HTTPStatus
from importlib import import_module
from typing import Any

from flask import Flask, Response, current_app, g, make_response, render_template, request
from flask_wtf import CSRFProtect
from jinja2 import StrictUndefined
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException

from migration_service import errors
from migration_service.blueprints.console.access import guard_views
from migration_service.blueprints.console.counting import ASKED, BeingCountedError
from migration_service.blueprints.console.display import add_filters, here_with
from migration_service.blueprints.console.faults import attributes_at_fault
from migration_service.blueprints.console.languages import _, speak_languages
from migration_service.blueprints.console.pages import openid
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.console.views import MOUNT, VIEWS
from migration_service.blueprints.requests.application import Application, LinkedNumberConverter
from migration_service.blueprints.requests.errors import status_of
from migration_service.blueprints.requests.lifecycle import follow_requests
from migration_service.blueprints.requests.places import answer_in_time, wait_until_begun
from migration_service.blueprints.requests.resources import Resources, attach_resources, resources
from migration_service.config import Settings
from migration_service.db.cancelling import Work
from migration_service.services.setup.names import find_removed

logger = logging.getLogger(__name__)

#: The most bytes of a form. Uploads of files have their own limit.
MAX_FORM = 1_000_000


def create_console(settings: Settings, shared: Resources) -> Flask:
    """Return the console, which uses the connections of the web process."""
    app = Console("migration_service.blueprints.console")
    app.config.update(
        SECRET_KEY=hmac.digest(settings.secret_key.encode(), b"console", sha256),
        SESSION_COOKIE_NAME="migration_console",
        SESSION_COOKIE_PATH=MOUNT,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",  # not Strict, because the identity provider redirects back here
        SESSION_COOKIE_SECURE=settings.console_url.startswith("https:"),
        # The token is valid as long as the session, which ends on the server.
        WTF_CSRF_TIME_LIMIT=None,
        # It would compare the Referer, which our pages do not send.
        WTF_CSRF_SSL_STRICT=False,
        MAX_CONTENT_LENGTH=MAX_FORM,
        MAX_FORM_MEMORY_SIZE=MAX_FORM,
        # WTForms has its messages in our languages. Flask-WTF would need another package for them.
        WTF_I18N_ENABLED=False,
        SEND_FILE_MAX_AGE_DEFAULT=timedelta(hours=1),
    )
    app.url_map.converters["number"] = LinkedNumberConverter
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    attach_resources(app, shared)
    follow_requests(app, settings, _guard_page)
    _show_errors(app)
    speak_languages(app)
    add_filters(app)
    app.jinja_env.globals["at_fault"] = attributes_at_fault
    csrf = CSRFProtect()
    guard_views(app)
    csrf.init_app(app)
    # This view checks the token itself before it reads the file.
    csrf.exempt("migration_service.blueprints.console.pages.upload.send")
    openid.configure_openid(app, settings)
    register_pages(app)
    return app


def register_pages(app: Flask) -> None:
    """Register the blueprints that `VIEWS` names. Each is in the module of `pages` with its name."""
    for name in dict.fromkeys(endpoint.partition(".")[0] for endpoint in VIEWS):
        app.register_blueprint(import_module(f"migration_service.blueprints.console.pages.{name}").blueprint)


def _show_errors(app: Flask) -> None:
    """Answer every error of the console with a page."""
    app.register_error_handler(errors.ServiceError, _service_error)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(BeingCountedError, _being_counted)
    app.register_error_handler(DataError, _impossible_value)
    app.register_error_handler(IntegrityError, _refused_by_database)
    app.register_error_handler(OperationalError, _database_unavailable)
    app.register_error_handler(PoolTimeoutError, _database_unavailable)
    app.register_error_handler(Exception, _unexpected_error)


def _error_page(status: int, detail: str, code: str | None = None, meaning: str = "") -> Response:
    """Return a page about what happened.

    `meaning` explains the error code in the reader's language. `detail` is in English.
    """
    # A script replaces a part of a page, and shows its own sentence about failures.
    template = "error_part.html" if request.args.get("part") else "error.html"
    title = _title(status)
    return make_response(
        render_template(template, title=title, detail=detail, code=code, meaning=meaning), status
    )


def _service_error(error: errors.ServiceError) -> Response:
    status = status_of(type(error))
    if isinstance(error, errors.PermissionDeniedError):
        resources().refusals.note_refused_request(error)
        # access.py says in the reader's language what is not allowed.
        return _error_page(status, error.detail, error.code)
    return _error_page(status, error.detail, error.code, remedy_of(error.code).meaning)


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    detail = _("There is nothing at this address.") if status == 404 else error.description or ""
    return _error_page(status, detail)


def _being_counted(_error: BeingCountedError) -> Response:
    """Show a page that asks again until the numbers are there."""
    response = make_response(render_template("being_counted.html"))
    again = here_with(**{ASKED: request.args.get(ASKED, time.time())})
    response.headers["Refresh"] = f"2; url={again}"
    return response


def _impossible_value(_error: DataError) -> Response:
    """Respond to a request with a value that the database cannot hold, such as a null character."""
    return _error_page(400, _("The address or the form has an impossible value."))


def _refused_by_database(error: IntegrityError) -> Response:
    removed = find_removed(error, in_path=True)
    return _unexpected_error(error) if removed is None else _service_error(removed)


def _database_unavailable(error: Exception) -> Response:
    logger.error("The database did not answer: %s", type(error).__name__)
    return _error_page(503, _("The database does not answer. Try again in a moment."))


def _unexpected_error(error: Exception) -> Response:
    if current_app.testing:
        raise error
    logger.exception("An unexpected error")
    return _error_page(500, _("An unexpected error. Nothing was changed. The log says more."))


def _title(status: int) -> str:
    titles: dict[int, str] = {
        HTTPStatus.NOT_FOUND: _("Not found"),
        HTTPStatus.FORBIDDEN: _("Not allowed"),
        HTTPStatus.TOO_MANY_REQUESTS: _("Too many requests"),
        HTTPStatus.SERVICE_UNAVAILABLE: _("Not available"),
    }
    return titles.get(status) or (_("Something went wrong") if status >= 500 else _("That did not work"))


_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        # Bootstrap's stylesheet contains its icons.
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


def _guard_page(response: Response) -> None:
    """Add the headers to a response of the console."""
    headers = response.headers
    headers["Content-Security-Policy"] = _POLICY
    headers["X-Content-Type-Options"] = "nosniff"
    headers["X-Frame-Options"] = "DENY"
    headers["Referrer-Policy"] = "no-referrer"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
    # Pages have customers' data. Stylesheets and scripts have a header of their own.
    headers.setdefault("Cache-Control", "no-store")


class Console(Application):
    """An application whose pages begin, empty, when they take longer than a few seconds.

    The web server then finds out whether the browser is still there, and statements for one that has gone are
    cancelled.
    """

    def dispatch_request(self) -> Any:
        """Return the answer of the view. A page that has begun has the view's page, or says what was done."""
        need = VIEWS.get(request.endpoint or "")
        # A login sets its cookie with the head of its answer, and `stream` follows the browser of a file.
        if need is None or need.role is None or _sends_file():
            return super().dispatch_request()
        view = super().dispatch_request
        work = Work(resources().connections, lambda: self.make_response(view()))
        if wait_until_begun(work, _may_begin):
            return work.result()
        context = copy_context()
        return answer_in_time(work, lambda: context.run(self._finish, work), "text/html")

    def _finish(self, work: Work[Response]) -> bytes:
        if "X-Upload" in request.headers:  # its answer has begun with the address of the batch
            return work.result().get_data()
        try:
            response = work.result()
        except Exception as error:
            response = self.make_response(self.handle_user_exception(error))
        if location := response.headers.get("Location"):
            return render_template("finished.html", location=location).encode()
        return response.get_data()


def _sends_file() -> bool:
    """Whether the path ends with the name of a file."""
    return request.url_rule is not None and "." in request.url_rule.rule.rpartition("/")[2]


def _may_begin() -> bool:
    """Whether the answer may begin: after its file has arrived."""
    return "begun" in g or "body_is_consumed" not in g

"""Creates the console: a Flask application that `app.create_app` mounts at /console/."""

import hmac
from datetime import timedelta
from hashlib import sha256
from importlib import import_module

from flask import Flask
from flask_wtf import CSRFProtect
from jinja2 import StrictUndefined

from migration_service.blueprints.console.access import guard_views
from migration_service.blueprints.console.display import add_filters
from migration_service.blueprints.console.failures import show_errors
from migration_service.blueprints.console.faults import attributes_at_fault
from migration_service.blueprints.console.headers import guard_page
from migration_service.blueprints.console.languages import speak_languages
from migration_service.blueprints.console.pages import openid
from migration_service.blueprints.console.views import MOUNT, VIEWS
from migration_service.blueprints.requests.application import Application, LinkedNumberConverter
from migration_service.blueprints.requests.lifecycle import follow_requests
from migration_service.blueprints.requests.resources import Resources, attach_resources
from migration_service.config import Settings

#: The most bytes of a form. Uploads of files have their own limit.
MAX_FORM = 1_000_000


def create_console(settings: Settings, shared: Resources) -> Flask:
    """Return the console, which uses the connections of the web process."""
    app = Application("migration_service.blueprints.console")
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
    follow_requests(app, settings, guard_page)
    show_errors(app)
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

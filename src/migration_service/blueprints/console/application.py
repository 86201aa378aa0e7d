"""Creates the console: a Flask application that `app.create_app` mounts at /console/."""

import hmac
from datetime import timedelta
from hashlib import sha256

from flask import Flask
from flask_wtf import CSRFProtect
from jinja2 import StrictUndefined

from migration_service.blueprints.console.access import guard_views
from migration_service.blueprints.console.display import add_filters
from migration_service.blueprints.console.failures import show_errors
from migration_service.blueprints.console.faults import attributes_at_fault
from migration_service.blueprints.console.headers import guard_page
from migration_service.blueprints.console.languages import speak_languages
from migration_service.blueprints.console.pages import (
    accounts,
    acknowledgements,
    assets,
    audit,
    batch_actions,
    batches,
    comparison,
    control_totals,
    downloads,
    emails,
    error_threshold,
    findings,
    go_live,
    health,
    keys,
    limits,
    login,
    openid,
    operators,
    overview,
    reports,
    setup,
    supplier_actions,
    suppliers,
    undo,
    upload,
    vendors,
    wave_actions,
    wave_planning,
    waves,
    webhooks,
    work,
)
from migration_service.blueprints.console.views import MOUNT
from migration_service.blueprints.requests.application import Application, LinkedNumberConverter
from migration_service.blueprints.requests.lifecycle import follow_requests
from migration_service.blueprints.requests.resources import Resources, attach_resources
from migration_service.config import Settings

#: The most bytes of a form. Uploads of files have their own limit.
MAX_FORM = 1_000_000

#: The modules with the pages.
PAGES = (
    login,
    openid,
    assets,
    overview,
    supplier_actions,
    suppliers,
    acknowledgements,
    go_live,
    waves,
    wave_planning,
    wave_actions,
    batches,
    batch_actions,
    error_threshold,
    comparison,
    control_totals,
    undo,
    findings,
    downloads,
    reports,
    upload,
    accounts,
    work,
    limits,
    emails,
    setup,
    vendors,
    webhooks,
    keys,
    operators,
    audit,
    health,
)


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
    for module in PAGES:
        app.register_blueprint(module.blueprint)
    return app

"""The composition root of the web application."""

from functools import partial

from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix

from migration_service.blueprints import (
    added_data,
    api_key,
    attempts,
    batches,
    certificates,
    comparison,
    control_totals,
    erasure,
    events,
    front_page,
    go_lives,
    graphql,
    health,
    import_suppliers,
    metrics,
    old_figures,
    process,
    readiness,
    reconciliation,
    replacements,
    reports,
    sessions,
    skipping,
    status,
    undo,
    waves,
    webhooks,
)
from migration_service.blueprints.console.views import MOUNT
from migration_service.blueprints.description.openapi import configure_openapi, serve_description
from migration_service.blueprints.direct import answer_directly
from migration_service.blueprints.requests.application import Application, NumberConverter, NumberRule
from migration_service.blueprints.requests.body import close_operations, reading_to_the_end
from migration_service.blueprints.requests.errors import register_error_handlers
from migration_service.blueprints.requests.lifecycle import follow_requests
from migration_service.blueprints.requests.resources import Resources, attach_resources
from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.connections import Sentinels, can_write, make_redis
from migration_service.db import reference
from migration_service.db.cancelling import Connections
from migration_service.db.commits import CommitWatch
from migration_service.db.engine import STATEMENT_SECONDS_OF_REQUESTS, make_sessionmaker, service_engine
from migration_service.db.holding import Outage
from migration_service.db.known_commits import KnownCommit
from migration_service.payment_vendors.calls import CALLS as VENDOR_CALLS
from migration_service.services.access.refusals import RefusalLog
from migration_service.services.access.throttle import Throttle
from migration_service.services.access.tokens import FIND_CALLER
from migration_service.services.imports.quota import StagedQuota
from migration_service.services.processing.dispatch import WAIT_SLICE, Dispatch
from migration_service.services.processing.slots import Slots
from migration_service.services.setup.names import find_removed
from migration_service.services.setup.suppliers import FIND_SUPPLIER
from migration_service.shares import Places
from migration_service.tasks.accounts import publish_set

#: The most requests of one process that may wait for an outcome. Each needs a connection to Redis.
_MOST_WAITING = 512
#: The statements whose rows web processes keep in memory.
KEPT_STATEMENTS = (FIND_CALLER, FIND_SUPPLIER)


def create_app(settings: Settings) -> Flask:
    """Return the Flask application with `settings`. It connects when a request first needs a connection."""
    app = Application("migration_service", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.json.sort_keys = False  # type: ignore[attr-defined]
    # External account numbers may contain two consecutive slashes.
    app.url_map.merge_slashes = False
    app.url_map.converters["number"] = NumberConverter
    app.url_rule_class = NumberRule
    shared = _connect(settings)
    attach_resources(app, shared)
    follow_requests(app, settings)
    api = configure_openapi(app)
    # After flask-smorest, which registers its own handlers.
    register_error_handlers(app, shared.refusals.note_refused_request, find_removed)
    app.register_blueprint(health.blueprint)
    app.register_blueprint(metrics.blueprint)
    app.register_blueprint(graphql.blueprint)
    for module in (
        process,  # and the other views of account_imports
        status,
        attempts,
        import_suppliers,
        added_data,
        batches,
        comparison,
        control_totals,
        readiness,
        reconciliation,
        old_figures,
        erasure,
        skipping,
        events,
        sessions,
        api_key,
        replacements,
        undo,
        go_lives,
        waves,
        certificates,
        webhooks,
        reports,
    ):
        api.register_blueprint(module.blueprint)
    close_operations(app)
    serve_description(app, api)
    app.register_blueprint(front_page.blueprint)
    # OpenTelemetry follows requests through Flask.
    if not settings.traces_endpoint:
        app.wsgi_app = answer_directly(app.wsgi_app, shared)  # type: ignore[assignment, method-assign]
    if settings.console:
        _mount_console(app, settings, shared)
    if settings.trusted_proxies:
        _believe_proxies(app, settings.trusted_proxies)
    app.wsgi_app = reading_to_the_end(app.wsgi_app)  # type: ignore[assignment, method-assign]
    return app


def _mount_console(app: Flask, settings: Settings, shared: Resources) -> None:
    # Imported here, because a service without the console does not need its libraries in memory.
    from migration_service.blueprints.console.application import create_console  # noqa: PLC0415

    console = create_console(settings, shared)
    app.extensions["migration_service_console"] = console
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {MOUNT: console})  # type: ignore[method-assign]


def _believe_proxies(app: Flask, count: int) -> None:
    """Take the client's address, which identifies failed attempts, from the headers of `count` proxies.

    Their other headers are ignored, because no response depends on the scheme or host used by a client.
    """
    fixed = ProxyFix(app.wsgi_app, x_for=count, x_proto=0, x_host=0)
    app.wsgi_app = fixed  # type: ignore[method-assign]


def _connect(settings: Settings) -> Resources:
    engine = service_engine(
        settings,
        "migration-web",
        pool_size=settings.database_pool_size,
        max_overflow=0,
        statement_seconds=STATEMENT_SECONDS_OF_REQUESTS,
        kind=KnownCommit,
    )
    session_maker = make_sessionmaker(engine)
    redis = make_redis(settings.redis_url, max_connections=_MOST_WAITING)
    VENDOR_CALLS.keep_in(redis)
    slots = Slots(redis)
    waiting = make_redis(settings.redis_url, max_connections=_MOST_WAITING, wait_seconds=WAIT_SLICE)
    celery = create_celery(settings)
    wait_seconds = settings.process_wait_seconds
    dispatch = Dispatch(session_maker, slots, redis, waiting, partial(publish_set, celery), wait_seconds)
    return Resources(
        settings,
        session_maker,
        reference.ReferenceReader(session_maker, KEPT_STATEMENTS, reference.KEPT_SECONDS),
        redis,
        Outage(partial(can_write, redis)) if Sentinels.of(settings.redis_url) else None,
        dispatch,
        celery,
        Throttle(redis),
        StagedQuota(redis, settings.max_staged_accounts),
        RefusalLog(session_maker),
        Places(),
        Connections(engine),
        CommitWatch(partial(service_engine, settings, "migration-health")),
    )

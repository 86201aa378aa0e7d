"""The resources that views share: one set of connections per process, kept on the Flask application."""

from dataclasses import dataclass
from typing import cast

from flask import Flask, current_app
from redis import Redis
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.db.cancelling import Connections
from migration_service.db.commits import CommitWatch
from migration_service.db.holding import Outage
from migration_service.db.reference import ReferenceReader
from migration_service.services.access.refusals import RefusalLog
from migration_service.services.access.throttle import Throttle
from migration_service.services.imports.quota import StagedQuota
from migration_service.services.processing.dispatch import Dispatch
from migration_service.shares import Places
from migration_service.tasks.app import MigrationCelery

_EXTENSION = "migration_service"


@dataclass(frozen=True, slots=True)
class Resources:
    """The settings and connections of a web process, made by `app.create_app`."""

    settings: Settings
    #: `with resources().Session.begin() as session:` is a view's transaction.
    Session: sessionmaker[Session]
    #: Reads API keys, sessions and import suppliers, and caches them for a second.
    reference: ReferenceReader
    #: The client for short commands. It times out after about a second, so that a frozen Redis cannot block a
    #: view.
    redis: Redis
    #: What is known of that Redis while it does not answer, or None if no Sentinels choose another one.
    redis_outage: Outage | None
    #: Used by the process endpoint to dispatch attempts.
    dispatch: Dispatch
    #: Used to publish messages.
    celery: MigrationCelery
    #: Failed attempts to obtain a token.
    throttle: Throttle
    #: Suppliers that have reached the quota of staged accounts.
    staged_quota: StagedQuota
    #: The log of refused logins, tokens and requests.
    refusals: RefusalLog
    #: The requests of each organisation in this process.
    places: Places
    #: The connections to the database, to cancel what nobody waits for.
    connections: Connections
    #: Checks whether the database commits.
    commits: CommitWatch


def attach_resources(app: Flask, shared: Resources) -> None:
    """Keep `shared` on the application for its views."""
    app.extensions[_EXTENSION] = shared


def resources() -> Resources:
    """Return the resources of the application that serves the current request."""
    return cast(Resources, current_app.extensions[_EXTENSION])

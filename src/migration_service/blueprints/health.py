"""Health checks for load balancers and orchestrators: is the process alive, and is it ready?

A balancer of several hosts asks `/health/ready`, because another host may reach a database that this one does
not. Kubernetes asks `/health/pod`. All pods lose the database at the same time, and without a ready pod
clients would be refused the connection, instead of being held until the next primary server answers.
"""

from importlib.metadata import version

from flask import Blueprint, Response, jsonify
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from migration_service.blueprints.requests.resources import resources
from migration_service.connections import can_write
from migration_service.db.engine import ONLY_READS
from migration_service.db.holding import can_be_written_to
from migration_service.db.needed_tables import are_new_enough, were_new_enough
from migration_service.leaving import is_leaving

#: Seconds after which the database counts as unavailable.
_ANSWER_SECONDS = 2.0
_VERSION = version("migration-service")

blueprint = Blueprint("health", __name__, url_prefix="/health")


@blueprint.get("/live")
def live() -> Response:
    """Return 200 while the process answers, with the version of the service."""
    return jsonify(status="ok", version=_VERSION)


@blueprint.get("/ready")
def ready() -> tuple[Response, int]:
    """Return 200 if the database answers, writes and commits, and this server is not draining, else 503.

    `database` is "outdated" if the tables are older than this code needs.

    A background check tries a commit at most once every few seconds. Its last result is used.

    Redis is reported but not required, because only `process` needs it.
    """
    database = _ask_database()
    redis = "ok" if can_write(resources().redis) else "unavailable"
    status = "leaving" if is_leaving() else "ok" if database == "ok" else "away"
    return jsonify(status=status, database=database, redis=redis), 200 if status == "ok" else 503


@blueprint.get("/pod")
def pod() -> tuple[Response, int]:
    """Return 200 if this process can serve whenever there is a database, else 503.

    It cannot while it is draining, or until it has seen once that the tables are new enough.
    """
    engine = resources().Session.kw["bind"]
    usable = were_new_enough(engine) or _ask_database() == "ok"
    status = "leaving" if is_leaving() else "ok" if usable else "away"
    return jsonify(status=status), 200 if status == "ok" else 503


def _ask_database() -> str:
    commits = resources().commits
    if commits.commits_wait():
        # Requests that wait for their commits may hold all connections.
        return "commits-wait"
    try:
        return commits.ask(_read_role, resources().Session.kw["bind"], _ANSWER_SECONDS)
    except (SQLAlchemyError, TimeoutError):
        return "unavailable"


def _read_role(engine: Engine) -> str:
    # A connection that is already open may lead to the server before a switch-over.
    if not can_be_written_to(engine):
        with engine.connect() as connection:
            if connection.scalar(text(ONLY_READS)):
                connection.invalidate()
                return "read-only"
    with engine.connect() as connection:
        return "ok" if are_new_enough(engine, connection) else "outdated"

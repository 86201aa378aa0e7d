"""Health checks for load balancers and orchestrators: is the process alive, and is it ready?"""

from flask import Blueprint, Response, jsonify
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from migration_service.blueprints.requests.resources import resources
from migration_service.connections import can_write
from migration_service.db.engine import ONLY_READS
from migration_service.db.holding import can_be_written_to
from migration_service.leaving import is_leaving

#: Seconds after which the database counts as unavailable.
_ANSWER_SECONDS = 2.0

blueprint = Blueprint("health", __name__, url_prefix="/health")


@blueprint.get("/live")
def live() -> Response:
    """Return 200 while the process answers."""
    return jsonify(status="ok")


@blueprint.get("/ready")
def ready() -> tuple[Response, int]:
    """Return 200 if the database answers, writes and commits, and this server is not draining, else 503.

    A background check tries a commit at most once every few seconds. Its last result is used.

    Redis is reported but not required, because only `process` needs it.
    """
    database = _ask_database()
    redis = "ok" if can_write(resources().redis) else "unavailable"
    status = "leaving" if is_leaving() else "ok" if database == "ok" else "away"
    return jsonify(status=status, database=database, redis=redis), 200 if status == "ok" else 503


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
    if can_be_written_to(engine):
        return "ok"
    with engine.connect() as connection:
        if not connection.scalar(text(ONLY_READS)):
            return "ok"
        connection.invalidate()
    return "read-only"

"""Health checks for load balancers and orchestrators: whether the process is alive, and ready."""

from flask import Blueprint, Response, jsonify
from redis import RedisError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from migration_service.blueprints.requests.resources import resources
from migration_service.connections import try_write
from migration_service.db.engine import ONLY_READS
from migration_service.leaving import is_leaving

blueprint = Blueprint("health", __name__, url_prefix="/health")


@blueprint.get("/live")
def live() -> Response:
    """Return 200 while the process answers."""
    return jsonify(status="ok")


@blueprint.get("/ready")
def ready() -> tuple[Response, int]:
    """Return 200 if the database answers, writes and commits, and nobody told this server to end; else 503.

    Whether it commits is tried in the background, at most once in some seconds: this is the last result.

    Redis is reported: only `process` needs it.
    """
    database = _ask_database()
    redis = "ok" if _redis_answers() else "unavailable"
    status = "leaving" if is_leaving() else "ok" if database == "ok" else "away"
    return jsonify(status=status, database=database, redis=redis), 200 if status == "ok" else 503


def _ask_database() -> str:
    if resources().commits.commits_wait():
        # Requests that wait for their commits may have taken all connections.
        return "commits-wait"
    try:
        with resources().Session.begin() as session:
            if session.scalar(text(ONLY_READS)):
                # The next connection may lead to another server.
                session.invalidate()
                return "read-only"
    except SQLAlchemyError:
        return "unavailable"
    return "ok"


def _redis_answers() -> bool:
    try:
        try_write(resources().redis)
    except RedisError:
        return False
    return True

"""Health checks for load balancers and orchestrators: whether the process is alive, and ready."""

from flask import Blueprint, Response, jsonify
from redis import RedisError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from migration_service.blueprints.resources import resources

blueprint = Blueprint("health", __name__, url_prefix="/health")


@blueprint.get("/live")
def live() -> Response:
    """Return 200 while the process answers."""
    return jsonify(status="ok")


@blueprint.get("/ready")
def ready() -> tuple[Response, int]:
    """Return 200 if the database answers, and 503 otherwise. Redis is only reported."""
    parts = {"database": _database_answers(), "redis": _redis_answers()}
    states = {name: "ok" if answers else "unavailable" for name, answers in parts.items()}
    status = 200 if parts["database"] else 503
    return jsonify(status="ok" if status == 200 else "unavailable", **states), status


def _database_answers() -> bool:
    try:
        with resources().Session.begin() as session:
            session.execute(text("SELECT 1"))
    except SQLAlchemyError:
        return False
    return True


def _redis_answers() -> bool:
    try:
        return bool(resources().redis.ping())
    except RedisError:
        return False

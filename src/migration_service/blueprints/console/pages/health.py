"""Health: the lines of the doctor, each shown as soon as it is known."""

from collections.abc import Iterator

from flask import Blueprint, Response, stream_template

from migration_service.blueprints.requests.resources import resources
from migration_service.doctor.diagnosis import Diagnosis, ServiceParts
from migration_service.doctor.examination import examine

blueprint = Blueprint("health", __name__, url_prefix="/health")


@blueprint.get("/")
def show() -> Response:
    """Check every part of the service. It takes some seconds, so the page is sent line by line."""
    response = Response(stream_template("health.html", findings=_examine()), mimetype="text/html")
    # Proxies and our compression would delay the lines.
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _examine() -> Iterator[Diagnosis]:
    shared = resources()
    parts = ServiceParts(shared.settings, lambda _settings: shared.celery)
    parts.sessions, parts.redis = shared.Session, shared.redis
    return examine(parts)

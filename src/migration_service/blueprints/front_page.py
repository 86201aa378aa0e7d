"""The response to `/`: the console, or a short page of links if there is no console."""

from pathlib import Path

from flask import Blueprint, Response, redirect
from werkzeug.wrappers import Response as AnyResponse

from migration_service.blueprints.console.views import MOUNT
from migration_service.blueprints.requests.resources import resources

blueprint = Blueprint("front_page", __name__)

_PAGE = Path(__file__).with_suffix(".html").read_text()


@blueprint.get("/")
def show() -> AnyResponse:
    """Redirect to the console, or show links to everything."""
    if resources().settings.console:
        return redirect(f"{MOUNT}/")
    return Response(_PAGE, mimetype="text/html")

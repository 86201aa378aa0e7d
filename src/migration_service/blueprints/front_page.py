"""The response to `/`: the console, or a short page of links if there is no console."""

from flask import Blueprint, Response, redirect
from werkzeug.wrappers import Response as AnyResponse

from migration_service.blueprints.console.views import MOUNT
from migration_service.blueprints.requests.resources import resources

blueprint = Blueprint("front_page", __name__)

_PAGE = """<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width">
    <title>Account Migration Import Service</title>
  </head>
  <body>
    <main>
      <h1>Account Migration Import Service</h1>
      <ul>
        <li><a href="/v1/docs/">The interface, described</a></li>
        <li><a href="/v1/openapi.json">Its description for programs</a></li>
        <li><a href="/health/ready">Whether the service is ready</a></li>
      </ul>
    </main>
  </body>
</html>
"""


@blueprint.get("/")
def show() -> AnyResponse:
    """Redirect to the console, or show links to everything."""
    if resources().settings.console:
        return redirect(f"{MOUNT}/")
    return Response(_PAGE, mimetype="text/html")

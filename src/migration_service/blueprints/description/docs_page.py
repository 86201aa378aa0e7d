"""Serves the description as JSON, and as a page that loads nothing from other servers."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import flask_swagger_ui
from flask import Blueprint, Response, request, send_from_directory

from migration_payloads.schemas.json import encode_json

_ASSETS = Path(flask_swagger_ui.__file__).parent / "dist"
_PAGE = """<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>Account Migration Import Service</title>
    <link rel="icon" href="/v1/docs/assets/favicon-32x32.png">
    <link rel="stylesheet" href="/v1/docs/assets/swagger-ui.css">
  </head>
  <body>
    <div id="description"></div>
    <script src="/v1/docs/assets/swagger-ui-bundle.js"></script>
    <script src="/v1/docs/assets/start.js"></script>
  </body>
</html>
"""
# A separate file, because the page may not run inline scripts.
_START = """window.onload = function () {
  window.ui = SwaggerUIBundle({ url: "/v1/openapi.json", dom_id: "#description", deepLinking: true });
};
"""


def docs_blueprint(description: dict[str, Any]) -> Blueprint:
    """Return the blueprint that serves `description`."""
    blueprint = Blueprint("docs", __name__, url_prefix="/v1")
    text = encode_json(description)
    etag = sha256(text).hexdigest()[:32]

    @blueprint.get("/openapi.json")
    def description_json() -> Response:
        return _cached(Response(text, mimetype="application/json"), etag)

    @blueprint.get("/docs/")
    def page() -> Response:
        return Response(_PAGE, mimetype="text/html", headers={"Cache-Control": "no-cache"})

    @blueprint.get("/docs/assets/start.js")
    def start() -> Response:
        return Response(_START, mimetype="text/javascript", headers={"Cache-Control": "no-cache"})

    @blueprint.get("/docs/assets/<path:name>")
    def asset(name: str) -> Response:
        return send_from_directory(_ASSETS, name)

    return blueprint


def _cached(response: Response, etag: str) -> Response:
    """Let clients cache the response, and revalidate it each time (304)."""
    response.set_etag(etag)
    response.headers["Cache-Control"] = "no-cache"
    response.make_conditional(request)
    return response

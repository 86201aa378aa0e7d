"""Bootstrap's stylesheet from its package, and its part for dark pages."""

import re
from functools import cache
from pathlib import Path

import flask_bootstrap
from flask import Blueprint, Response, send_file

blueprint = Blueprint("assets", __name__, url_prefix="/assets")

_STYLESHEET = Path(flask_bootstrap.__file__).parent / "static/bootstrap5/css/bootstrap.min.css"
_DARK_RULE = re.compile(r"\[data-bs-theme=dark\]([^{}]*)\{([^{}]*)\}")
_DAY = 86_400


@blueprint.get("/bootstrap.css")
def bootstrap() -> Response:
    """Return Bootstrap's stylesheet."""
    return send_file(_STYLESHEET, mimetype="text/css", max_age=_DAY)


@blueprint.get("/dark.css")
def dark() -> Response:
    """Return Bootstrap's rules for dark pages. The page links them for systems that prefer dark colours.

    Bootstrap applies them to an attribute, which would need a script to follow the system.
    """
    return Response(_dark_rules(), mimetype="text/css", headers={"Cache-Control": f"max-age={_DAY}"})


@cache
def _dark_rules() -> str:
    rules = _DARK_RULE.findall(_STYLESHEET.read_text())
    return "".join(f":root{selector.split(',')[0]}{{{body}}}\n" for selector, body in rules)

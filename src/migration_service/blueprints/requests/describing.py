"""Decorators of flask-smorest that only describe a view, without adding their wrappers.

A view has about ten such decorators. Each wrapper would run in every request, and keep a copy of everything
that the decorators below it have described.
"""

from collections.abc import Callable
from typing import Any

View = Callable[..., Any]


def only_describe(decorator: Callable[[View], View]) -> Callable[[View], View]:
    """Return a decorator that only gives a view the description that `decorator` gives it."""

    def decorate(view: View) -> View:
        described: Any = decorator(view)
        vars(view)["_apidoc"] = described._apidoc
        return view

    return decorate


def described_body(view: View) -> dict[str, Any]:
    """Return the request body in the operation's description, or {} if it takes none."""
    body: dict[str, Any] = getattr(view, "_apidoc", {}).get("manual_doc", {}).get("requestBody", {})
    return body

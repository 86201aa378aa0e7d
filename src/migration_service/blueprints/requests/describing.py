"""Decorators of flask-smorest that only describe a view, without the wrapper that each of them adds to it.

A view has about ten of them. Each wrapper is called with each request, and keeps a copy of all that the
decorators below it have described.
"""

from collections.abc import Callable
from typing import Any

View = Callable[..., Any]


def only_describe(decorator: Callable[[View], View]) -> Callable[[View], View]:
    """Return a decorator that gives a view the description that `decorator` would, and nothing else."""

    def decorate(view: View) -> View:
        described: Any = decorator(view)
        vars(view)["_apidoc"] = described._apidoc
        return view

    return decorate

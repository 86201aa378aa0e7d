"""Headers of every response. They restrict browsers and forbid caching."""

from flask import Flask, Response

#: For data: a browser must not run any of it, or show it in a frame.
_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
# The page of the description loads nothing from other servers, and runs no inline scripts.
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def guard_responses(app: Flask) -> None:
    """Add the headers to every response of `app`."""
    app.after_request(_guard)


def _guard(response: Response) -> Response:
    headers = response.headers
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    is_page = response.mimetype == "text/html"
    headers["Content-Security-Policy"] = _PAGE_POLICY if is_page else _DATA_POLICY
    # Responses contain customers' data or tokens. A response that may be cached has its own header.
    headers.setdefault("Cache-Control", "no-store")
    return response

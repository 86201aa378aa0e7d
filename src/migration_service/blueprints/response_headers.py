"""Headers that every answer carries: what a browser may do with it, and that nobody keeps it."""

from flask import Flask, Response

#: Data is not a page: a browser runs nothing of it, and shows it in no frame.
_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
# The page of the description loads nothing from elsewhere, and runs nothing that is written into it.
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def guard_responses(app: Flask) -> None:
    """Add the headers to every answer of `app`."""
    app.after_request(_guard)


def _guard(response: Response) -> Response:
    headers = response.headers
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    is_page = response.mimetype == "text/html"
    headers["Content-Security-Policy"] = _PAGE_POLICY if is_page else _DATA_POLICY
    # Answers have customers' data or tokens in them. What may be kept says so itself.
    headers.setdefault("Cache-Control", "no-store")
    return response

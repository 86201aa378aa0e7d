"""Headers of every page, which restrict what a browser may load, run and keep."""

from flask import Response

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        # Bootstrap's stylesheet contains its icons.
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


def guard_page(response: Response) -> None:
    """Add the headers to a response of the console."""
    headers = response.headers
    headers["Content-Security-Policy"] = _POLICY
    headers["X-Content-Type-Options"] = "nosniff"
    headers["X-Frame-Options"] = "DENY"
    headers["Referrer-Policy"] = "no-referrer"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
    # Pages have customers' data. Stylesheets and scripts have a header of their own.
    headers.setdefault("Cache-Control", "no-store")

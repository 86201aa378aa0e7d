"""Parts of pages that a script requests repeatedly, and the time until the next request."""

import math
import time

from flask import Response, g, make_response, render_template, request

#: Seconds until the next request while something changes, and while nothing does.
BUSY, CALM = 2, 15
#: The largest share of time that the responses for an open page may take.
SHARE = 0.01


def page(template: str, *, poll: int | None = BUSY, **values: object) -> Response:
    """Return a page, or only its changing part if the script requests that.

    The part is the template of the same name ending in `_part`, which the page includes. The script requests
    it again after `poll` seconds. `poll` is None if it will not change any more.
    """
    part = template.replace(".html", "_part.html")
    if request.args.get("part"):
        response = make_response(render_template(part, poll=poll, **values))
    else:
        response = make_response(render_template(template, poll=poll, part=part, **values))
    # Slow parts are requested less often, so that every open page costs the same, but at least as often as a
    # page on which nothing changes.
    spent = time.monotonic() - g.began_at
    wait = 0 if poll is None else max(poll, min(CALM, math.ceil(spent / SHARE)))
    response.headers["X-Poll-After"] = str(wait)
    return response

"""Parts of pages that a script asks for again and again, and how soon it asks next."""

import math
import time

from flask import Response, g, make_response, render_template, request

#: Seconds until the next time, while something moves, and while nothing does.
BUSY, CALM = 2, 15
#: The part of the time that the answers to an open page may take.
_SHARE = 0.01


def page(template: str, *, poll: int | None = BUSY, **values: object) -> Response:
    """Return a page, or only its moving part if the script asks for that.

    The part is the template of the same name with `_part` at its end, which the page includes. `poll` is in
    how many seconds the script asks again; None: what is shown will not change any more.
    """
    part = template.replace(".html", "_part.html")
    if request.args.get("part"):
        response = make_response(render_template(part, poll=poll, **values))
    else:
        response = make_response(render_template(template, poll=poll, part=part, **values))
    wait = 0 if poll is None else stretch(poll, time.monotonic() - g.began_at)
    response.headers["X-Poll-After"] = str(wait)
    return response


def stretch(poll: int, spent: float) -> int:
    """Return in how many seconds the script asks again for what took `spent` seconds.

    What takes long is asked for less often, so that an open page costs the same whatever it shows. Not less
    often than a calm page.
    """
    return max(poll, min(CALM, math.ceil(spent / _SHARE)))

"""Parts of pages that a script asks for again and again, and how soon it asks next."""

from flask import Response, make_response, render_template, request

#: Seconds until the next time, while something moves, and while nothing does.
BUSY, CALM = 2, 15


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
    response.headers["X-Poll-After"] = str(poll or 0)
    return response

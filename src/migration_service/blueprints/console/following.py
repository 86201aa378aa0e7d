"""The views of the console end when their browser has gone, whatever they do."""

from contextvars import copy_context
from typing import Any

from flask import Response, g, render_template, request

from migration_service.blueprints.console.views import VIEWS
from migration_service.blueprints.requests.application import Application
from migration_service.blueprints.requests.places import answer_in_time, wait_until_begun
from migration_service.blueprints.requests.resources import resources
from migration_service.db.cancelling import Work


class Console(Application):
    """An application whose pages begin, empty, when they take longer than a few seconds.

    The web server then finds out whether the browser is still there, and statements for one that has gone are
    cancelled.
    """

    def dispatch_request(self) -> Any:
        """Return the answer of the view. A page that has begun has the view's page, or says what was done."""
        need = VIEWS.get(request.endpoint or "")
        # A login sets its cookie with the head of its answer, and `stream` follows the browser of a file.
        if need is None or need.role is None or _sends_file():
            return super().dispatch_request()
        view = super().dispatch_request
        work = Work(resources().connections, lambda: self.make_response(view()))
        if wait_until_begun(work, _may_begin):
            return work.result()
        context = copy_context()
        return answer_in_time(work, lambda: context.run(self._finish, work), "text/html")

    def _finish(self, work: Work[Response]) -> bytes:
        if "X-Upload" in request.headers:  # its answer has begun with the address of the batch
            return work.result().get_data()
        try:
            response = work.result()
        except Exception as error:
            response = self.make_response(self.handle_user_exception(error))
        if location := response.headers.get("Location"):
            return render_template("finished.html", location=location).encode()
        return response.get_data()


def _sends_file() -> bool:
    """Whether the path ends with the name of a file."""
    return request.url_rule is not None and "." in request.url_rule.rule.rpartition("/")[2]


def _may_begin() -> bool:
    """Whether the answer may begin: after its file has arrived."""
    return "begun" in g or "body_is_consumed" not in g

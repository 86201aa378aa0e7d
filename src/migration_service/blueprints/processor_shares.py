"""Measures what each request costs, and lets whoever has used up its share of the process wait."""

import time

from flask import Flask, Response, g, request

from migration_service.blueprints.resources import resources
from migration_service.services.access.processor_shares import Owner
from migration_service.services.access.throttle import client_of


def measure_requests(app: Flask) -> None:
    """Charge the requests of `app` to whoever sends them."""
    app.before_request(_begin)
    app.after_request(_charge_with_last_byte)


def await_share(organisation_id: int | None = None) -> None:
    """Wait until the sender of the current request may begin it: its organisation, or else its address.

    Raise ProcessorShareUsedError if it would have to wait for too long.
    """
    shared = resources()
    owner = _client() if organisation_id is None else organisation_id
    g.charged_in_advance = shared.processor_shares.enter(owner)
    if shared.processor_shares.is_needed_by_others(owner):
        g.place = shared.places.take(owner)


def leave_place() -> None:
    """Let another request of the sender run, because this one only waits from now on."""
    if "place" in g:
        resources().places.leave(g.place)


def _begin() -> None:
    g.processor_time = time.thread_time()


def _charge_with_last_byte(response: Response) -> Response:
    shared, began = resources(), g.processor_time
    owner: Owner = g.caller.organisation_id if "caller" in g else _client()
    in_advance, place = g.get("charged_in_advance", 0.0), g.get("place")

    # A list is streamed, and most of its cost comes after this.
    @response.call_on_close
    def end() -> None:
        if place:
            shared.places.leave(place)
        shared.processor_shares.charge(owner, time.thread_time() - began, in_advance)

    return response


def _client() -> str:
    return client_of(request.remote_addr)

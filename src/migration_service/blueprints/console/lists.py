"""Lists: a page of what a service lists, and all of it as CSV, at two addresses of one view."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from flask import Blueprint, Response, current_app, make_response, render_template, request
from jinja2.filters import make_attrgetter
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moments
from migration_service.blueprints.console.counting import ASKED, keep
from migration_service.blueprints.console.display import here_with, json_text
from migration_service.blueprints.console.pages.downloads import send_file
from migration_service.blueprints.console.polling import page
from migration_service.blueprints.requests.paging import Listing
from migration_service.blueprints.requests.resources import resources
from migration_service.db.cancelling import allow_minutes
from migration_service.formats import write_csv

_View = TypeVar("_View", bound=Callable[..., Any])

#: The entries that are read together for a file.
PAGE = 500
_FILE = "list.csv"
#: What a spreadsheet takes as the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def list_at(blueprint: Blueprint, path: str) -> Callable[[_View], _View]:
    """Add a view that calls `show_list`: the page is at `path`, and the file below it."""

    def add(view: _View) -> _View:
        # `url_for` takes the first one.
        blueprint.add_url_rule(path, view_func=view)
        blueprint.add_url_rule(f"{path}{_FILE}", view_func=view)
        return view

    return add


def show_list(
    template: str,
    find: Callable[..., Sequence[Any]],
    columns: str,
    more: Callable[[Session, list[Any]], Mapping[str, Any]] = lambda _session, _found: {},
    *,
    key: str | None = None,
    read_key: Callable[[str], Any] = str,
    kept: Any = None,
) -> Response:
    """Show a page of a list as `found` in a template, or send the whole list as a file.

    `find` gets a session, and returns at most `limit` entries that follow the one with the key `before`.
    Without `key`, the name of the key of an entry, it gets nothing but the session, and returns everything.
    Each column of the file is the attribute of an entry as templates write it, such as `0.name`, and has its
    last part as its name, or the name that is before a `=`. `more` returns what else the template shows. With
    `poll`, the page has a part that is refreshed. A page of a list that takes long to find has entries of the
    type `kept`, as `keep` has it.
    """
    if request.path.endswith(f"/{_FILE}"):
        name = "-".join(request.path.split("/")[1:-1]) or "suppliers"
        return send_file(_write(find, columns, key, read_key), f"{name}.csv")
    listing = Listing.shown(read_key)
    with resources().Session.begin() as session:
        if key is None:
            found = list(find(session))
        else:
            part: Any = partial(find, before=listing.after, limit=listing.wanted)
            name = here_with(cursor=request.args.get("cursor"), **{ASKED: None})
            rows = part(session) if kept is None else keep(session, name, list[kept], part)[0]
            found = listing.cut(rows, key)
        values = more(session, found)
    show: Callable[..., Any] = page if "poll" in values else render_template
    return make_response(show(template, found=found, listing=listing, file=here_with(_FILE), **values))


def _write(
    find: Callable[..., Sequence[Any]],
    columns: str,
    key: str | None,
    read_key: Callable[[str], Any],
) -> Iterator[bytes]:
    """Yield the list in pieces, each read in a transaction of its own."""
    # Later pieces are made after the request, and need to know who has asked.
    context, sessions = copy_context(), resources().Session
    head: list[list[str]] = [[it.partition("=")[0].rpartition(".")[2] for it in columns.split()]]
    paths = [it.rpartition("=")[2] for it in columns.split()]
    values = [make_attrgetter(current_app.jinja_env, it, default="") for it in paths]
    key_of = make_attrgetter(current_app.jinja_env, key)

    def read(**wanted: Any) -> Sequence[Any]:
        with sessions.begin() as session:
            allow_minutes(session)
            return find(session, **wanted)

    before = None
    while True:
        found = context.run(read, **({} if key is None else {"before": before, "limit": PAGE}))
        yield write_rows([*head, *([value(it) for value in values] for it in found)])
        if key is None or len(found) < PAGE:
            return
        head, before = [], read_key(str(key_of(found[-1])))


def write_rows(rows: Iterable[Iterable[Any]]) -> bytes:
    """Return rows of CSV for people, who open it with a spreadsheet."""
    return write_csv(map(_cell, row) for row in rows)


def _cell(value: Any) -> str:
    """Return a value as text, which is no formula for a spreadsheet."""
    match value:
        case None:
            return ""
        case str():
            return f"'{value}" if value.startswith(_FORMULA) else value
        case list() | tuple():
            return _cell(" ".join(map(str, value)))
        case bool() | dict():
            return json_text(value)
    return str(write_moments(value))

"""The pages of lists: how many entries a page has, which one it follows, and where the next page starts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flask import Response, jsonify, request, url_for
from marshmallow import Schema

from migration_service.blueprints.requests.interface import caller
from migration_service.blueprints.requests.resources import resources

#: The entries of a page of the console.
SHOWN = 50

_Key = TypeVar("_Key")
_Entry = TypeVar("_Entry")


@dataclass(slots=True)
class Listing(Generic[_Key]):
    """A page of a list: the first entries, or those that follow the entry with the key `after`."""

    limit: int
    after: _Key | None
    #: The key of the last entry, if more entries follow it.
    cursor: _Key | None = None

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> "Listing[Any]":
        """Return the page that a request asks for, as its parameters were loaded (`schemas.paging`)."""
        return cls(arguments["limit"], arguments.get("cursor"))

    @classmethod
    def shown(cls, key: Callable[[str], _Key]) -> "Listing[_Key]":
        """Return the page that the console shows: the first one if the address has no valid cursor."""
        try:
            return cls(SHOWN, key(request.args["cursor"]) if request.args.get("cursor") else None)
        except ValueError:
            return cls(SHOWN, None)

    @property
    def wanted(self) -> int:
        """Return how many entries to find: one more than the page has tells that there is a next page."""
        return self.limit + 1

    def cut(self, found: Sequence[_Entry], key: str) -> list[_Entry]:
        """Return the entries of the page. Those found are at most `wanted`, and have their key as `key`."""
        return self.page([*found[: self.limit]], key, follow=len(found) > self.limit)

    def page(self, entries: list[_Entry], key: str, *, follow: bool) -> list[_Entry]:
        """Return the entries of the page. `follow` tells whether there is a next page."""
        if follow:
            last: Any = entries[-1]
            self.cursor = last[key] if isinstance(last, dict) else getattr(last, key)
        return entries

    def answer(self, found: Sequence[_Entry], key: str, write: Callable[[_Entry], Any]) -> Response:
        """Return the page as a response, with each entry written, and a link to the next page."""
        response = jsonify([write(entry) for entry in self.cut(found, key)])
        if self.cursor is not None:
            link_next(response, self.limit, str(self.cursor))
        return response


def answer_list(
    arguments: Mapping[str, Any], find: Callable[..., Sequence[Any]], key: str, schema: Schema
) -> Response:
    """Answer with a page of what `find` lists of the caller's organisation and a supplier, newest first."""
    listing = Listing.read(arguments)
    with resources().Session.begin() as session:
        found = find(
            session,
            organisation_id=caller().organisation_id,
            import_supplier=arguments.get("import_supplier"),
            before=listing.after,
            limit=listing.wanted,
        )
    return listing.answer(found, key, schema.dump)


def link_next(response: Response, limit: int, cursor: str) -> None:
    """Link to the next page of the current request's list, which starts after `cursor`."""
    others = {name: value for name, value in request.args.items() if name not in ("limit", "cursor")}
    values: dict[str, Any] = {**(request.view_args or {}), "limit": limit, "cursor": cursor, **others}
    response.headers["Link"] = f'<{url_for(request.endpoint or "", **values)}>; rel="next"'

"""The query parameters of lists that are read in pages."""

from migration_payloads.schemas.fields import Identifier, WholeNumber


def page_limit(things: str) -> WholeNumber:
    """Return the parameter for the size of a page of `things`."""
    return WholeNumber(
        f"At most this many {things}, 1 to 500. The Link header leads to the next page.",
        50,
        load_default=50,
        parameter={"type": "integer", "minimum": 1, "maximum": 500},
    )


def page_cursor(example: str, *, max_length: int = 128) -> Identifier:
    """Return the parameter for the entry after which a page starts."""
    return Identifier("Where the page starts, taken from the Link header.", example, max_length=max_length)

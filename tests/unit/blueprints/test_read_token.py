"""The Authorization header in all its forms (section 5)."""

import pytest

from migration_service.blueprints.requests.interface import read_token
from migration_service.errors import NotAuthenticatedError, UnauthenticatedError


@pytest.mark.parametrize(
    "header",
    [
        "a.b.c",
        "Token a.b.c",
        "token a.b.c",
        "TOKEN a.b.c",
        "Bearer a.b.c",
        "JWT a.b.c",
        "jwt a.b.c",
        "Token   a.b.c",
        "Token\ta.b.c",
        " Token a.b.c ",
        " a.b.c ",
    ],
)
def test_a_token_is_read(header: str) -> None:
    assert read_token(header) == "a.b.c"


@pytest.mark.parametrize("header", ["", " ", "Token", "Bearer ", "jwt"])
def test_a_missing_token_is_reported_as_missing(header: str) -> None:
    with pytest.raises(NotAuthenticatedError):
        read_token(header)


@pytest.mark.parametrize("header", ["Basic a.b.c", "Token a b", "Token Token a", "a.b.c, a.b.c"])
def test_another_form_of_the_header_is_refused(header: str) -> None:
    with pytest.raises(UnauthenticatedError, match="must be: Token <token>"):
        read_token(header)

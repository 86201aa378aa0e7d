"""The header Idempotency-Key with and without the quotes of a structured field (RFC 8941)."""

import pytest
from flask import Flask

from migration_service.blueprints.requests.idempotency import read_key


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("", None),
        (" ", None),
        ("abc", "abc"),
        (" abc ", "abc"),
        ('"abc"', "abc"),
        ('"a"', "a"),
        ('"', '"'),
        ('"abc', '"abc'),
        ('abc"', 'abc"'),
        ('x"y"', 'x"y"'),
        ('"x"y', '"x"y'),
    ],
)
def test_a_key_is_read_without_the_quotes_around_it(header: str, key: str | None) -> None:
    with Flask(__name__).test_request_context(headers={"Idempotency-Key": header}):
        assert read_key() == key

"""Every message of the console has a Dutch translation with the same values in it."""

import re

import pytest
from babel.messages.catalog import Catalog
from console_messages import FILE, update

_VALUE = re.compile(r"%\(\w+\)s")


@pytest.fixture(scope="module")
def catalogue() -> Catalog:
    """Every message of the console, and its translation."""
    return update()


def _texts(message: str | tuple[str, ...] | list[str]) -> list[str]:
    return [message] if isinstance(message, str) else list(message)


def test_every_message_is_translated_with_its_values(catalogue: Catalog) -> None:
    for message in catalogue:
        if not message.id:
            continue
        originals, translations = _texts(message.id), _texts(message.string or "")
        assert len(originals) == len(translations), message.id
        for original, translation in zip(originals, translations, strict=True):
            assert translation, f"{message.id} has no translation: run tools/console_messages.py"
            assert set(_VALUE.findall(original)) == set(_VALUE.findall(translation)), original


def test_the_file_has_no_message_that_is_used_nowhere(catalogue: Catalog) -> None:
    written = FILE.read_text()
    assert written.count("msgid ") == sum(1 for message in catalogue if message.id)

"""Every message, state and code has words in both languages, and a table the names of its columns."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest
from babel.messages.catalog import Catalog
from console_messages import FILE, update
from flask import Flask

from migration_service.blueprints.console.ordering import sentences_of
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.description.error_catalogue import (
    added_data_errors,
    field_errors,
    request_errors,
    rule_errors,
)
from migration_service.states import BatchKind, BatchMode

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


CODES = sorted(
    {entry.code for entry in (*request_errors(), *field_errors(), *rule_errors(), *added_data_errors())}
)


@contextmanager
def _reading(language: str) -> Iterator[None]:
    with Flask("console").test_request_context(headers={"Accept-Language": language}):
        yield


def test_every_code_has_a_meaning_and_a_remedy_in_dutch() -> None:
    with _reading("en"):
        english = {code: remedy_of(code) for code in CODES}
    with _reading("nl"):
        dutch = {code: remedy_of(code) for code in CODES}
    for code in CODES:
        assert english[code].meaning and english[code].remedy, code
        assert dutch[code].meaning not in ("", english[code].meaning), code
        assert dutch[code].remedy not in ("", english[code].remedy), code


def test_a_code_of_a_field_and_a_rule_means_either() -> None:
    with _reading("en"):
        meaning = remedy_of("invisible_characters").meaning
    assert meaning.startswith("An identifier has an invisible character. Or: A name, an address, an e-mail")


def test_nothing_is_said_of_an_unknown_code() -> None:
    with _reading("nl"):
        found = remedy_of("nobody_knows_this")
    assert (found.meaning, found.remedy, found.is_ours) == ("", "", False)


@pytest.mark.parametrize(
    ("code", "is_ours"),
    [
        ("line_failed_unexpectedly", True),
        ("payment_vendor_unreachable", True),
        ("required", False),
        ("invalid_phone_number", False),
    ],
)
def test_who_mends_it(code: str, is_ours: bool) -> None:
    with _reading("en"):
        assert remedy_of(code).is_ours is is_ours


@pytest.mark.parametrize(("mode", "kind"), list(product(BatchMode, BatchKind)))
def test_a_step_has_a_sentence_about_one_line_and_one_about_several(mode: BatchMode, kind: BatchKind) -> None:
    one, several = sentences_of(mode, kind)
    assert one.startswith("%(num)s line is ")
    assert several.startswith("%(num)s lines are ")

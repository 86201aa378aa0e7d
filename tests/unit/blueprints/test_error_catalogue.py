"""Every code that an answer can carry is documented, and docs/suppliers/errors.md says what the code says."""

from error_docs import FILE, render

from migration_service.blueprints.error_catalogue import (
    FIELD_CODES,
    REMEDIES,
    field_errors,
    note_errors,
    request_errors,
    rule_errors,
)
from migration_service.schemas.fields import Coded


def test_the_page_of_errors_is_what_the_code_says() -> None:
    assert FILE.read_text() == render(), "run `make docs`"


def test_each_code_has_a_meaning_and_says_what_to_do() -> None:
    for entry in [*request_errors(), *field_errors(), *rule_errors(), *note_errors()]:
        assert entry.meaning.endswith("."), entry
        assert entry.remedy.endswith("."), entry


def test_no_remedy_is_left_of_a_code_that_is_gone() -> None:
    assert set(REMEDIES) == {entry.code for entry in request_errors()}


def _all_fields(field: type[Coded] = Coded) -> set[type[Coded]]:
    return {field}.union(*map(_all_fields, field.__subclasses__()))


def test_each_code_that_a_field_refuses_with_is_documented() -> None:
    messages = [item for field in _all_fields() for item in field.default_error_messages.items()]
    codes = {getattr(text, "code", key) for key, text in messages}
    of_schemas = {"max_length", "invalid_choice", "note_body_or_document_path_not_found", "unknown_field"}
    assert codes | of_schemas == set(FIELD_CODES)

"""Every code that an answer can have is documented."""

import re

from migration_payloads.schemas.coded import Coded
from migration_payloads.schemas.field_codes import FIELD_CODES
from migration_service import errors
from migration_service.blueprints.description.error_catalogue import (
    added_data_errors,
    field_errors,
    request_errors,
    rule_errors,
)
from migration_service.errors import ImportSupplierMismatchError, ServiceError, quoted


def test_each_code_has_a_meaning_and_a_remedy() -> None:
    for entry in [*request_errors(), *field_errors(), *rule_errors(), *added_data_errors()]:
        assert entry.meaning.endswith("."), entry
        assert entry.remedy.endswith("."), entry


def test_each_class_with_its_own_code_has_its_own_remedy() -> None:
    for error in _all_errors():
        assert ("code" in vars(error)) == ("remedy" in vars(error)), error


def test_a_code_has_one_remedy() -> None:
    remedies: dict[str, str] = {}
    for error in _all_errors():
        assert remedies.setdefault(error.code, error.remedy) == error.remedy, error


def test_the_tree_in_the_docstring_has_every_class_with_others_below_it() -> None:
    drawn = re.findall(r"^[^\w\n]*(\w+Error)\b", str(errors.__doc__), re.MULTILINE)
    assert sorted(drawn) == sorted(it.__name__ for it in _all_errors() if _all_errors(it) > {it})


def test_each_error_is_exported() -> None:
    assert {error.__name__ for error in _all_errors()} < set(dir(errors))


def test_a_value_of_a_request_is_shown_on_one_line_and_cut() -> None:
    assert quoted("acme") == "'acme'"
    assert quoted("a\nb\x00\udcff") == r"'a\nb\x00\udcff'"
    assert quoted("x" * 60) == "'" + "x" * 60 + "'"
    assert quoted("x" * 1000) == "'" + "x" * 59 + "…'"


def test_a_message_names_what_was_found_and_what_was_expected() -> None:
    error = ImportSupplierMismatchError(found="{expected}", expected="b")
    assert error.detail == "The account names import supplier '{expected}', but the batch is for 'b'."
    assert error.errors[0].detail == error.detail


def _all_errors(error: type[ServiceError] = ServiceError) -> set[type[ServiceError]]:
    """Return the public classes of errors. A module may derive private ones from them."""
    found = {error}.union(*map(_all_errors, error.__subclasses__()))
    return {
        each
        for each in found
        if each.__module__.startswith(("migration_payloads.", "migration_service.errors."))
    }


def _all_fields(field: type[Coded] = Coded) -> set[type[Coded]]:
    return {field}.union(*map(_all_fields, field.__subclasses__()))


def test_each_error_code_of_a_field_is_documented() -> None:
    messages = [item for field in _all_fields() for item in field.default_error_messages.items()]
    codes = {getattr(text, "code", key) for key, text in messages}
    of_schemas = {"max_length", "invalid_choice", "note_body_or_document_path_not_found", "unknown_field"}
    of_bounds = {"too_deep", "number_too_long", "too_many_errors", "document_too_long"}
    of_identifiers = {
        "outer_spaces",
        "not_normalised",
        "compatibility_characters",
        "invisible_characters",
        "bidirectional_characters",
    }
    of_requests = {"page_size_out_of_range", "idempotency_key_invalid"}
    assert codes | of_schemas | of_bounds | of_identifiers | of_requests == set(FIELD_CODES)

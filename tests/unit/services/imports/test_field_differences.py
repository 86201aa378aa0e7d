"""Which values of a created account count as other than those that were staged."""

from typing import Any

import pytest

from migration_service.services.imports.field_differences import FieldDifference, compare_fields, read_json


def _compare(staged: Any, created: Any) -> list[tuple[str, Any, Any]]:
    return [(it.path, it.staged, it.created) for it in compare_fields(staged, created)]


@pytest.mark.parametrize(
    ("staged", "created"),
    [
        ('{"field": "A"}', '{"field": "A"}'),
        ('{"field": 10}', '{"field": 10.00}'),
        ('{"field": 0.1}', '{"field": 0.10000000000000000000}'),
        ('{"field": null}', "{}"),
        ('{"field": []}', "{}"),
        ("{}", '{"field": {}}'),
        ('{"params": {"ref": null}}', '{"params": {}}'),
        ('{"total_monthly_advance_amount": "+100.1"}', '{"total_monthly_advance_amount": "100.10"}'),
        ('{"total_monthly_advance_amount": 100}', '{"total_monthly_advance_amount": "100.00"}'),
        ('{"start_at": "2026-03-01T10:00:00.500000"}', '{"start_at": "2026-03-01T10:00:00.5"}'),
    ],
)
def test_a_value_is_the_same_however_it_is_written(staged: str, created: str) -> None:
    assert _compare(read_json(staged), read_json(created)) == []


@pytest.mark.parametrize(
    ("staged", "created"),
    [
        ("A", "B"),
        ("A", "a"),
        ("A", " A"),
        ("A", None),
        ("", None),
        ("05", "5"),
        ("5", 5),
        (10, "10"),
        (10, 10.01),
        (0, None),
        (True, False),
        (True, 1),
        (True, "true"),
        ("2026-03-01T10:00:00", "2026-03-01T11:00:00"),
    ],
)
def test_another_value_is_a_difference_in_both_directions(staged: Any, created: Any) -> None:
    assert _compare({"field": staged}, {"field": created}) == [("field", staged, created)]
    assert _compare({"field": created}, {"field": staged}) == [("field", created, staged)]


@pytest.mark.parametrize("name", ["start_at", "total_monthly_advance_amount"])
def test_a_moment_or_a_number_as_text_can_be_something_else(name: str) -> None:
    for other in ("1", None, 7):
        assert _compare({name: "later"}, {name: other}) == [(name, "later", other)]


def test_values_of_a_part_that_one_side_does_not_have_are_named_one_by_one() -> None:
    staged = {"ledger": {"code": "L", "params": {"a": 1, "b": 2}}}
    assert _compare(staged, {"ledger": {"code": "M"}}) == [
        ("ledger.code", "L", "M"),
        ("ledger.params.a", 1, None),
        ("ledger.params.b", 2, None),
    ]


@pytest.mark.parametrize(
    ("staged", "created", "found"),
    [
        ("abc", "ac", [("1", "b", None)]),
        ("ac", "abc", [("1", None, "b")]),
        ("abc", "bc", [("0", "a", None)]),
        ("ab", "abc", [("2", None, "c")]),
        ("abcd", "acbd", [("1.id", "b", "c"), ("2.id", "c", "b")]),
        ("abcd", "axd", [("1.id", "b", "x"), ("2", "c", None)]),
        ("aab", "ab", [("1", "a", None)]),
    ],
)
def test_a_row_that_one_side_does_not_have_is_one_difference(
    staged: str, created: str, found: list[tuple[str, Any, Any]]
) -> None:
    """Each letter is a row. The rows after one that is lost are compared with those that they are."""
    sides = [{"rows": [{"id": letter} for letter in letters]} for letters in (staged, created)]
    rows = {letter: {"id": letter} for letter in "abcdx"}
    expected = [
        (f"rows.{path}", one if "." in path else rows.get(one), other if "." in path else rows.get(other))
        for path, one, other in found
    ]
    assert _compare(*sides) == expected


def test_an_item_that_is_null_is_none() -> None:
    assert _compare({"a": [None, 1]}, {"a": [1]}) == []
    assert _compare({"a": [None]}, {"a": [1]}) == [("a.0", None, 1)]


def test_two_rows_of_what_is_one_object_are_a_difference() -> None:
    (found,) = compare_fields({"template": {"a": 1}}, {"template": [{"a": 1}, {"a": 1}]})
    assert found == FieldDifference("template", {"a": 1}, [{"a": 1}, {"a": 1}])

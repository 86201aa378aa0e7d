"""`migration-client profile` finds what changed between two books, and nothing if nothing did."""

from typing import Any

import pytest

from migration_service_client.command.drift import find_drift


def _of(number: int, **known: Any) -> dict[str, Any]:
    """Return what a profile may say of a path with this number of values."""
    names = ("values", "parents", "weight", "weight_of_parents", "sampled")
    return dict.fromkeys(names, number) | known


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (_of(900, lettered=900, upper_case=450), _of(900, lettered=900, upper_case=180), ["upper_case"]),
        (_of(900, lettered=900, upper_case=450), _of(900, lettered=900, upper_case=181), []),
        (_of(15), {}, ["vanished"]),
        (_of(14), {}, []),
        ({}, _of(15), ["new"]),
        ({}, _of(14), []),
        (_of(100, codes={"A": 85, "B": 15}), _of(100, codes={"A": 100}), ["gone_code"]),
        (_of(100, codes={"A": 86, "B": 14}), _of(100, codes={"A": 100}), []),
        (_of(900, distinct=1, repeated=0.04), _of(900, repeated=0.5), ["duplicates"]),
        (_of(900, distinct=1, repeated=0.05), _of(900, repeated=0.5), []),
        (
            _of(900, is_date=1, quantiles=[0] * 101),
            _of(900, is_date=1, quantiles=[18_250] * 101),
            ["century"],
        ),
        (
            _of(900, is_date=1, quantiles=[0] * 101),
            _of(900, is_date=1, quantiles=[18_249] * 101),
            ["distribution"],
        ),
    ],
)
def test_a_drift_is_told_from_its_bound_on(
    old: dict[str, Any], new: dict[str, Any], kinds: list[str]
) -> None:
    """Nothing is told of what is in an object that one of the books does not have."""
    for parent in (_of(9), _of(9, null=9), _of(9, null=8)):
        books = (
            {"paths": {"a": it, "a.b": known} if known else {"a": it}}
            for known, it in ((old, parent), (new, _of(9)))
        )
        found = [it.kind for it in find_drift(*books) if it.path == "a.b"]
        assert found == (kinds if parent != _of(9, null=9) else [])

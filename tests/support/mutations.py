"""Random damage to a valid payload: any value or key is changed into any JSON."""

import json
from copy import deepcopy
from datetime import date
from typing import Any

from hypothesis import strategies as st

from migration_service_local.samples import generate_accounts

TODAY = date(2026, 3, 1)

#: A small account as JSON.
SMALL = json.dumps(min(generate_accounts(30, supplier="S", seed=2, today=TODAY), key=lambda it: len(str(it))))
#: Values that clients send instead: zeros of every form, empty and blank texts, other spellings.
STAND_INS: list[Any] = [
    *("", " ", " x", "x ", "\u00a0", "e\u0301", "\uff11\uff12", "a\u202eb", "a\u200bb", "/a/b.pdf"),
    *("NOT_LISTED", "YES", "off", "1", "7", "0", 1, 0, 1.0, 0.0, -0.0, 1e-09, 1e30, None, [], {}, [{}]),
    [""],
]

_NASTY: list[Any] = [
    *(None, True, False, 0, -1, 1e308, 10**400, "", " ", "\0", "a\0b", "NaN", "null", "0", "-0", "1e3"),
    *("1_000", " 1", "9" * 400, "2023-02-29", "2024-02-29", "0000-00-00", "9999-12-31"),
    *("2024-01-01T00:00:00Z", "2024-01-01T00:00:00", "2024-01-01T24:00:00", "x" * 5_000, "\u202e"),
    *("\U0001f600", "../../etc/passwd", "a/./b", "'; DROP TABLE account; --", "ELECTRICITY", "GAS"),
    *("+31612345678", "a@b.example", [], {}, [[]], [{}], [None], [[[[[[[[]]]]]]]], {"": ""}),
    *({"a": {"b": []}}, "true", "False", 1.5, 12345678901234567890, "١٢٣"),
]

#: Any JSON, often a value that is nearly valid.
ANY_JSON = st.sampled_from(_NASTY) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=5,
)


def typed(value: Any) -> Any:
    """Return a value with the types of all its parts, so that Decimal("1.50") differs from Decimal("1.5")."""
    if isinstance(value, dict):
        return {key: typed(below) for key, below in value.items()}
    if isinstance(value, list):
        return [typed(below) for below in value]
    return type(value), str(value)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Yield every (container, key) of a payload."""
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        found += [(value, key), *places(below)]
    return found


@st.composite
def damaged_accounts(draw: st.DrawFn) -> Any:
    """Draw a generated account with one to four values replaced, removed, renamed or moved."""
    seed = draw(st.integers(0, 10_000))
    (account,) = generate_accounts(1, supplier="S", seed=seed, today=TODAY)
    account = deepcopy(account)
    for _ in range(draw(st.integers(1, 4))):
        found = places(account)
        if not found:
            break
        container, key = draw(st.sampled_from(found))
        match draw(st.sampled_from(["replace", "replace", "remove", "rename", "swap", "double"])):
            case "replace":
                container[key] = deepcopy(draw(ANY_JSON))
            case "remove":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[draw(st.text(max_size=10))] = container.pop(key)
            case "swap":
                other, other_key = draw(st.sampled_from(found))
                container[key] = deepcopy(other[other_key])
            case "double" if isinstance(container, list):
                container.append(deepcopy(container[key]))
    return account

"""docs/limits.md has existing codes, settings and constants, with their values."""

import re
from importlib import import_module
from typing import Any

import pytest

from documentation.pages import ROOT
from migration_service.blueprints.description.error_catalogue import field_errors, request_errors
from migration_service.config import Settings
from migration_service.errors import ServiceError
from migration_service.schemas import bounds

_PAGE = (ROOT / "docs/limits.md").read_text()
_ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in _PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| ---", "| bound", "| what"))
]
_CONSTANTS = sorted(set(re.findall(r"`([a-z_.]+\.[A-Z_]+)`", _PAGE)))
_SETTINGS = sorted(set(re.findall(r"`(MIGRATION_SERVICE_[A-Z_]+)`", _PAGE)))
#: Settings that limit what a client may do. A new one with such a name must be on the page.
_BOUNDS = re.compile("_MAX_|_SECONDS$|_RATIO$|_RESERVE$|_IN_FLIGHT$")
_OTHERS = {"token_lifetime_seconds", "refresh_token_lifetime_seconds", "leave_seconds"}


def _codes_below(error: type[ServiceError]) -> set[str]:
    return {error.code}.union(*map(_codes_below, error.__subclasses__()))


def test_every_code_exists() -> None:
    known = {entry.code for entry in [*request_errors(), *field_errors()]} | _codes_below(ServiceError)
    named = {row[3].strip("`") for row in _ROWS if len(row) == 4 and row[3].startswith("`")}
    assert len(named) > 15
    assert named <= known


@pytest.mark.parametrize("name", _CONSTANTS)
def test_every_constant_exists_and_has_the_documented_value(name: str) -> None:
    module, _, constant = name.rpartition(".")
    value: Any = getattr(import_module(f"migration_service.{module}"), constant)
    (row, *_) = [row for row in _ROWS if any(f"`{name}`" in cell for cell in row)]
    shown = {f"{value:,}", f"{value:g} s", f"{value // 1_000_000:g} MB", f"{value // 1_000:g} kB"}
    shown.add(f"{value // 1024:g} kB")
    assert any(text in cell for text in shown for cell in row), (row, shown)


def test_every_setting_exists_and_no_bound_is_left_out() -> None:
    by_variable = {field.metadata["env"]: field.name for field in Settings.__dataclass_fields__.values()}
    assert set(_SETTINGS) <= set(by_variable)
    expected = {env for env, name in by_variable.items() if _BOUNDS.search(env) and name not in _OTHERS}
    assert expected <= set(_SETTINGS)


@pytest.mark.parametrize("variable", [name for name in _SETTINGS if not name.endswith("FOLDER")])
def test_every_default_is_the_one_of_the_setting(variable: str) -> None:
    (field,) = [it for it in Settings.__dataclass_fields__.values() if it.metadata["env"] == variable]
    value: Any = field.default
    shown = {f"{value:,}", f"{value:g} s", f"{value / 1_000_000:g} MB", f"{value / 1_000_000_000:g} GB"}
    rows = [row for row in _ROWS if any(f"`{variable}`" in cell for cell in row)]
    in_a_table = any(text in row[1] for row in rows for text in shown)
    assert in_a_table or variable == "MIGRATION_SERVICE_BATCH_CHUNKS_IN_FLIGHT", (rows, shown)


def test_every_bound_on_a_body_is_on_the_page() -> None:
    constants = {name for name in vars(bounds) if name.startswith("MAX_")} - {"MAX_SHOWN"}
    assert {f"schemas.bounds.{name}" for name in constants} <= set(_CONSTANTS)

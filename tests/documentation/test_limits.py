"""docs/limits.md has existing codes, settings and constants, with their values, as tables elsewhere."""

import re
from importlib import import_module
from typing import Any

import pytest

from documentation.pages import PAGES, ROOT
from migration_payloads.schemas import bounds
from migration_service.blueprints.description.error_catalogue import field_errors, request_errors
from migration_service.config import Settings, variable_of
from migration_service.errors import ServiceError
from migration_service.payment_vendors.connection import CallLimits
from migration_service.services.idempotency.keys import KEPT_FOR_HOURS
from migration_service.tasks.names import COUNT_INTERVAL
from support.deployment_files import seconds_of_web, seconds_of_workers

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
    package = "" if module.startswith("migration_payloads.") else "migration_service."
    value: Any = getattr(import_module(f"{package}{module}"), constant)
    (row, *_) = [row for row in _ROWS if any(f"`{name}`" in cell for cell in row)]
    shown = {f"{value:,}", f"{value:g} s", f"{value // 1_000_000:g} MB", f"{value // 1_000:g} kB"}
    shown.add(f"{value // 1024:g} KiB")
    assert any(text in cell for text in shown for cell in row), (row, shown)


def test_every_setting_exists_and_no_bound_is_left_out() -> None:
    by_variable = {variable_of(field): field.name for field in Settings.__dataclass_fields__.values()}
    assert set(_SETTINGS) <= set(by_variable)
    expected = {env for env, name in by_variable.items() if _BOUNDS.search(env) and name not in _OTHERS}
    assert expected <= set(_SETTINGS)


@pytest.mark.parametrize("variable", [name for name in _SETTINGS if not name.endswith("FOLDER")])
def test_every_default_is_the_one_of_the_setting(variable: str) -> None:
    (field,) = [it for it in Settings.__dataclass_fields__.values() if variable_of(it) == variable]
    value: Any = field.default
    shown = {f"{value:,}", f"{value:g} s", f"{value / 1_000_000:g} MB", f"{value / 1_000_000_000:g} GB"}
    rows = [row for row in _ROWS if any(f"`{variable}`" in cell for cell in row)]
    in_a_table = any(text in row[1] for row in rows for text in shown)
    assert in_a_table or variable == "MIGRATION_SERVICE_BATCH_CHUNKS_IN_FLIGHT", (rows, shown)


def _default(variable: str) -> Any:
    (field,) = [it for it in Settings.__dataclass_fields__.values() if variable_of(it) == variable]
    return field.default


def test_every_table_with_a_setting_in_days_has_its_default() -> None:
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    rows = [line for line in lines if line.startswith("|") and " days" in line]
    named = [(row, name) for row in rows for name in re.findall(r"`(MIGRATION_SERVICE_\w+_DAYS)`", row)]
    wrong = [(row, name) for row, name in named if not re.search(rf"\b{_default(name)}\b", row)]
    assert len(named) > 6
    assert wrong == []


_CALL = CallLimits()
#: Parts of rows of tables, and what they have to say.
_FACTS: dict[str, tuple[Any, ...]] = {
    "operators/personal-data.md: what was answered | {} hours |": (KEPT_FOR_HOURS,),
    "operators/monitoring.md: | PostgreSQL, counted every {} seconds, or": (COUNT_INTERVAL,),
    "operators/scaling.md: `MIGRATION_SERVICE_DATABASE_POOL_SIZE` ({})": (
        _default("MIGRATION_SERVICE_DATABASE_POOL_SIZE"),
    ),
    "operators/payment-vendors.md: for each address of the host | {} s |": (_CALL.connect_seconds,),
    "operators/payment-vendors.md: to its last byte | {} s |": (_CALL.answer_seconds,),
    "operators/payment-vendors.md: | all attempts of a call together | {} s |": (_CALL.total_seconds,),
    "operators/payment-vendors.md: | attempts | {}, with pauses of about {} s and {} s;": (
        _CALL.attempts,
        _CALL.pause_seconds,
        2 * _CALL.pause_seconds,
    ),
    "operators/payment-vendors.md: | size of an answer | {} KiB |": (_CALL.max_body_bytes / 1024,),
    "operators/payment-vendors.md: until the circuit breaker opens | {} |": (_CALL.failures_to_open,),
    "operators/payment-vendors.md: | time until the next trial call | {} s |": (_CALL.open_seconds,),
    "operators/install.md: for {} seconds, and finishes its requests for up to {}.": (
        _default("MIGRATION_SERVICE_LEAVE_SECONDS"),
        seconds_of_web(0),
    ),
    "operators/install.md: One that has a task ends after {} seconds;": (seconds_of_workers(),),
    "suppliers/authentication.md: the access token; valid for {} minutes by default": (
        _default("MIGRATION_SERVICE_TOKEN_LIFETIME_SECONDS") / 60,
    ),
    "suppliers/authentication.md: valid for {} days by default": (
        _default("MIGRATION_SERVICE_REFRESH_TOKEN_LIFETIME_SECONDS") / 86_400,
    ),
}


@pytest.mark.parametrize("fact", _FACTS)
def test_other_tables_have_the_values_of_the_service(fact: str) -> None:
    page, _, shown = fact.partition(": ")
    assert shown.format(*(f"{value:g}" for value in _FACTS[fact])) in (ROOT / "docs" / page).read_text()


def test_every_bound_on_a_body_is_on_the_page() -> None:
    constants = {name for name in vars(bounds) if name.startswith("MAX_")} - {"MAX_SHOWN"}
    assert {f"migration_payloads.schemas.bounds.{name}" for name in constants} <= set(_CONSTANTS)

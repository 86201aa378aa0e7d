"""Every fault breaks one thing, in a copy."""

from copy import deepcopy
from datetime import date
from random import Random
from typing import Any

import pytest

from migration_service_local.samples import FAULTS, break_account, generate_accounts

TODAY = date(2026, 3, 15)


def _accounts() -> list[dict[str, Any]]:
    return list(generate_accounts(60, supplier="NORTHSTAR", today=TODAY))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_copy_is_broken_in_the_same_way_by_the_same_random_numbers(fault: str) -> None:
    """That the service finds each of them is tried with its rules."""
    for position, account in enumerate(_accounts()):
        if FAULTS[fault].needs_customers and "customers" not in account:
            continue
        before = deepcopy(account)
        broken = break_account(account, fault, Random(position))
        assert account == before
        assert broken != account
        assert broken == break_account(account, fault, Random(position))


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault.needs_customers])
def test_faults_of_customers_refuse_an_account_without_customers(fault: str) -> None:
    account = next(
        item for item in generate_accounts(500, supplier="NORTHSTAR", today=TODAY) if "customers" not in item
    )
    with pytest.raises(ValueError, match="needs an account with customers"):
        break_account(account, fault, Random(1))


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(KeyError):
        break_account(_accounts()[0], "no_such_fault", Random(1))


def test_the_catalogue_has_many_kinds() -> None:
    assert len({fault.code for fault in FAULTS.values()}) >= 20

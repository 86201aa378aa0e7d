"""Every fault breaks one thing, in a copy."""

from copy import deepcopy
from datetime import date
from random import Random

import pytest

from local.samples.sample_checks import Account, check_account
from migration_service_local.samples import FAULTS, break_account, generate_accounts

TODAY = date(2026, 3, 15)


def _accounts() -> list[Account]:
    return list(generate_accounts(60, supplier="NORTHSTAR", today=TODAY))


@pytest.mark.parametrize("fault", FAULTS)
def test_the_broken_copy_fails_and_the_original_stays_valid(fault: str) -> None:
    tried = 0
    for position, account in enumerate(_accounts()):
        if FAULTS[fault].needs_customers and "customers" not in account:
            continue
        before = deepcopy(account)
        broken = break_account(account, fault, Random(position))
        assert account == before
        assert broken != account
        if fault != "unknown_transaction_type":  # the checks have no closed lists
            with pytest.raises(
                (AssertionError, KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError)
            ):
                check_account(broken, TODAY)
        tried += 1
    assert tried > 50


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_random_numbers_break_an_account_in_the_same_way(fault: str) -> None:
    account = next(item for item in _accounts() if "customers" in item)
    assert break_account(account, fault, Random(5)) == break_account(account, fault, Random(5))


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

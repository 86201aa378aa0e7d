"""The time of each rule, and its share of validating an account: `python -m benchmarks.rules`.

The rules take turns in each round, so that a busy machine slows all of them alike. The time is processor time
of this process. The accounts are those of the other benchmarks.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from statistics import median

from benchmarks.payloads import make_payloads
from migration_service.rules.account import CheckedAccount
from migration_service.rules.catalogue import RULES, check_account
from migration_service.rules.rule import Rule
from migration_service.schemas.account import read_account
from migration_service.services.imports.validation import validate_text
from migration_service.states import Profile

_ACCOUNTS = 300
_ROUNDS = 40
_SHOWN = 10


def main() -> None:
    """Print the dearest rules, and what everything around them takes, in microseconds an account."""
    texts = [text.encode() for text in make_payloads(_ACCOUNTS)]
    today = datetime.now(UTC).date()
    loaded = [read_account(text).data for text in texts]
    accounts = [CheckedAccount(data, today) for data in loaded]
    around: dict[str, Callable[[], object]] = {
        "validation": lambda: [validate_text(text, Profile.LENIENT) for text in texts],
        "all rules": lambda: [check_account(data, profile=Profile.LENIENT, today=today) for data in loaded],
        "walking the account": lambda: [CheckedAccount(data, today) for data in loaded],
    }
    rules = {f"{place} {rule.code}": partial(_check, rule, accounts) for place, rule in enumerate(RULES)}
    times: dict[str, list[float]] = {name: [] for name in (*around, *rules)}
    for _ in range(_ROUNDS):
        for name, work in (around | rules).items():
            began = time.process_time()
            work()
            times[name].append(time.process_time() - began)
    medians = {name: median(values) / _ACCOUNTS * 1e6 for name, values in times.items()}
    for name in around:
        print(f"{medians.pop(name):7.2f}  {name}")
    print(f"{sum(medians.values()):7.2f}  {len(medians)} rules one by one, of which")
    for name, value in sorted(medians.items(), key=lambda item: -item[1])[:_SHOWN]:
        print(f"{value:7.2f}  {name.partition(' ')[2]}")


def _check(rule: Rule, accounts: list[CheckedAccount]) -> None:
    for account in accounts:
        for _fault in rule.check(account):
            pass


if __name__ == "__main__":
    main()

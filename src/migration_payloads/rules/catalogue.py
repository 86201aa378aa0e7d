"""All rules, and the function that runs them."""

import hashlib
from collections.abc import Collection
from datetime import date
from decimal import Context, localcontext
from pathlib import Path as FilePath
from typing import Any

from migration_payloads.profile import Profile
from migration_payloads.rules import (
    addresses,
    agreements,
    customers,
    dates,
    ledgers,
    meters,
    names,
    open_lists,
    periods,
    statements,
    transactions,
)
from migration_payloads.rules.account import CheckedAccount, Path
from migration_payloads.rules.rule import Finding, Rule
from migration_payloads.schemas.bounds import MAX_ERRORS

#: Every rule, in the order of the modules and of their definitions.
RULES: tuple[Rule, ...] = tuple(
    value
    for module in (
        customers,
        names,
        addresses,
        agreements,
        meters,
        periods,
        dates,
        ledgers,
        transactions,
        statements,
        open_lists,
    )
    for value in vars(module).values()
    if isinstance(value, Rule)
)

# Exact for products and sums of any amounts that fit in the database, and without exceptions.
_EXACT = Context(prec=80, traps=[])


def digest_sources(*folders: FilePath) -> str:
    """Return 8 hex digits of a SHA-256 over the names and texts of the Python files in the folders."""
    digest = hashlib.sha256()
    for file in sorted(file for folder in folders for file in folder.glob("*.py")):
        digest.update(file.name.encode() + b"\n")
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


#: The version of the rules, which changes with every change to the rules or fields. Staging stores it with
#: the payload, and processing revalidates the payload if it differs. Unlike a version number, nobody can
#: forget to change a hash of the source. An ineffective change only costs one more validation for each staged
#: account.
_PACKAGE = FilePath(__file__).parents[1]
RULES_VERSION: str = f"{digest_sources(_PACKAGE, _PACKAGE / 'schemas')}-{digest_sources(_PACKAGE / 'rules')}"


def check_account(
    data: dict[str, Any],
    *,
    profile: Profile,
    today: date,
    faulty: Collection[str] = (),
    text: bytes | None = None,
) -> list[Finding]:
    """Return the findings of all rules in an account, sorted by path, then by code.

    `data` is account data as loaded by the schema (section 2.3), even from a refused payload. Any key may be
    missing, and a rule whose values are missing finds nothing. `faulty` has the (dot-delimited) paths at
    which the schema already reported an error. Nothing else is reported there or below. Under the strict
    profile every finding but a notice is an error. A rule yields at most `MAX_ERRORS` + 1 findings. `text` is
    the data as JSON, or None if the caller does not have it.
    """
    account = CheckedAccount(data, today, faulty, text)
    strict = profile is Profile.STRICT
    findings: list[Finding] = []
    last, most = None, 0
    with localcontext(_EXACT):
        for rule in RULES:
            for path, detail in rule.check(account):
                if rule is not last:  # only now, because most rules find nothing
                    last, most = rule, len(findings) + MAX_ERRORS
                findings.append(Finding(path, rule.code, detail, rule.severity.under(strict=strict)))
                if len(findings) > most:
                    break
    if faulty and findings:
        findings = [finding for finding in findings if not _is_reported(finding.path, account.faulty)]
    return sorted(findings, key=lambda finding: (finding.path, finding.code))


def _is_reported(path: Path, reported: frozenset[str]) -> bool:
    return any(".".join(map(str, path[:length])) in reported for length in range(1, len(path) + 1))

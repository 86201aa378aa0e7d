"""What a rule is, and what it finds."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from migration_service.errors import ErrorItem
from migration_service.rules.account import CheckedAccount, Path


class Severity(StrEnum):
    """How bad a finding is."""

    #: The account is refused.
    ERROR = "error"
    #: The account is accepted, and the finding kept with it.
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a rule found.

    `path` leads to the offending value: field names and zero-based indexes. `detail` tells a person what to
    change; it may name values of the account, so it goes to the supplier and never into a log.
    """

    path: Path
    code: str
    detail: str
    severity: Severity

    @property
    def attr(self) -> str:
        """The path as section 7.2 writes it, for example `customers.0.family_name`."""
        return ".".join(map(str, self.path))

    def error_item(self) -> ErrorItem:
        """The error object of section 7.2."""
        return ErrorItem(self.code, self.detail, self.attr)


#: What a rule yields: where, and what to tell the supplier.
Fault: TypeAlias = tuple[Path, str]
Check: TypeAlias = Callable[[CheckedAccount], Iterator[Fault]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A validation across fields.

    Two rules may share a code where one fact is an error in one degree and a warning in another.
    `meaning` and `remedy` are sentences for the documentation: what is wrong, and what the client should do.
    """

    code: str
    #: Under the lenient profile; under the strict one everything is an error.
    severity: Severity
    check: Check
    meaning: str
    remedy: str


def rule(severity: Severity, *, remedy: str, code: str = "") -> Callable[[Check], Rule]:
    """Make a function a rule: its name is the code (unless `code` is given), its docstring the meaning."""

    def decorate(check: Check) -> Rule:
        meaning = " ".join((inspect.getdoc(check) or "").partition("\n\n")[0].split())
        return Rule(code or check.__name__, severity, check, meaning, remedy)

    return decorate

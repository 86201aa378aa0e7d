"""The classes of a rule and of its findings."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from migration_payloads.errors import ErrorItem
from migration_payloads.rules.account import CheckedAccount, Item, Path


class Severity(StrEnum):
    """The severity of a finding."""

    #: The account is refused.
    ERROR = "error"
    #: The account is accepted, and the finding is stored with it. Under the strict profile it is an error.
    WARNING = "warning"
    #: A warning that is no error under any profile, because what it finds may well be right.
    NOTICE = "notice"

    def under(self, *, strict: bool) -> "Severity":
        """Return the severity of a finding under a profile: an error or a warning."""
        if self is Severity.NOTICE:
            return Severity.WARNING
        return Severity.ERROR if strict else self


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a rule.

    `path` is the path of the faulty value: field names and zero-based indexes. `detail` tells a person what
    to change. It may contain values of the account, so it is sent to the supplier but never logged.
    """

    path: Path
    code: str
    detail: str
    severity: Severity

    @property
    def attr(self) -> str:
        """Return the path in the form of section 7.2, for example `customers.0.family_name`."""
        return ".".join(map(str, self.path))

    def error_item(self) -> ErrorItem:
        """Return the error object of section 7.2."""
        return ErrorItem(self.code, self.detail, self.attr)


#: An item yielded by a rule: the path, and the text for the supplier.
Fault: TypeAlias = tuple[Path, str]
Check: TypeAlias = Callable[[CheckedAccount], Iterator[Fault]]
#: A path, or an index.
Place = TypeVar("Place", bound=Hashable)


def find_future(
    account: CheckedAccount, items: Iterable[tuple[Path, Item]], field: str, said: str
) -> Iterator[Fault]:
    """Yield a fault for each item whose date is after today. `said` starts the sentence about the date."""
    today = account.today
    for path, item in items:
        day = item.get(field)
        if day and day > today:
            yield (*path, field), f"{said} {day}, which is after today, {today}."


def find_repeated(items: Iterable[tuple[Place, Item]], field: str) -> Iterator[tuple[Place, Any, Place]]:
    """Yield each item whose value an earlier one has: its place, the value, and the place of the first."""
    first: dict[Any, Place] = {}
    for place, item in items:
        value = item.get(field)
        if value and first.setdefault(value, place) is not place:
            yield place, value, first[value]


def find_repeated_in(items: Sequence[Item], field: str) -> Iterable[tuple[int, Any, int]]:
    """Return what `find_repeated` yields for a list, by index. One item, as in most lists, costs nothing."""
    return find_repeated(enumerate(items), field) if len(items) > 1 else ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A validation across fields.

    Two rules may share a code if the same fact can be an error or a warning, depending on its degree.
    `meaning` and `remedy` are sentences for the documentation.
    """

    code: str
    #: The severity under the lenient profile.
    severity: Severity
    check: Check
    meaning: str
    remedy: str


def rule(severity: Severity, *, remedy: str, code: str = "") -> Callable[[Check], Rule]:
    """Turn a function into a rule. The default `code` is its name. Its docstring is the meaning."""

    def decorate(check: Check) -> Rule:
        meaning = " ".join((inspect.getdoc(check) or "").partition("\n\n")[0].split())
        return Rule(code or check.__name__, severity, check, meaning, remedy)

    return decorate

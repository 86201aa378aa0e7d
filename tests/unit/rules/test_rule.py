"""A function becomes a rule: its name is the code, and the first paragraph of its docstring the meaning."""

from collections.abc import Iterator

from migration_service.rules.account import CheckedAccount
from migration_service.rules.rule import Fault, Severity, rule


def test_a_rule_has_the_name_and_the_meaning_of_its_function() -> None:
    @rule(Severity.WARNING, remedy="Do this.")
    def something_is_wrong(account: CheckedAccount) -> Iterator[Fault]:
        """Something is wrong,
        and on two lines.

        This is for programmers.
        """
        yield from ()

    assert (something_is_wrong.code, something_is_wrong.severity) == ("something_is_wrong", Severity.WARNING)
    assert something_is_wrong.meaning == "Something is wrong, and on two lines."
    assert something_is_wrong.remedy == "Do this."


def test_a_rule_may_have_the_code_of_another_and_no_docstring() -> None:
    def check(account: CheckedAccount) -> Iterator[Fault]:
        yield from ()

    made = rule(Severity.ERROR, code="other", remedy="Do that.")(check)
    assert (made.code, made.severity, made.check) == ("other", Severity.ERROR, check)
    assert (made.meaning, made.remedy) == ("", "Do that.")

"""The page about reconciliation says what is not compared, in the words of its answer."""

from documentation.pages import ROOT
from migration_service.services.reconciliation.differences import NOT_COMPARED

_PAGE = ROOT / "docs/migration-leads/reconciliation.md"


def test_the_page_lists_what_is_not_compared() -> None:
    after = _PAGE.read_text().partition("Not compared are:\n\n")[2]
    listed = after.partition("\n\n")[0].replace("\n  ", " ").splitlines()
    assert listed == [f"- {it}" for it in NOT_COMPARED]

"""What docs/operators/access.md says about API keys."""

import re

from documentation.pages import ROOT
from migration_service.services.access.scopes import Scope


def test_every_scope_is_in_the_table() -> None:
    page = (ROOT / "docs/operators/access.md").read_text()
    (table,) = re.findall(r"^\| scope \|.*\n\|[- |]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [it.value for it in Scope]

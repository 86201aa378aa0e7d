"""SECURITY.md names tests that exist, and the targets of the Makefile that there are."""

import re

from documentation.pages import ROOT

_PAGE = (ROOT / "SECURITY.md").read_text()


def test_every_test_that_it_names_exists() -> None:
    named = set(re.findall(r"`(tests/[a-z0-9_/]+\.py)`", _PAGE))
    assert len(named) > 25
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_every_target_that_it_names_exists() -> None:
    named = set(re.findall(r"`make ([a-z-]+)", _PAGE))
    makefile = (ROOT / "Makefile").read_text()
    assert "bench" in named
    assert {name for name in named if f"\n{name}:" not in makefile} == set()

"""Each shell block of the documentation is run: by tests/e2e/test_docs.py, or by what its page names."""

import re
from pathlib import Path

import pytest
from flask import Flask

from documentation.pages import PAGES, ROOT, links, shell_blocks
from documentation.shell import blocks, script
from e2e.test_docs import LONG, QUICK

#: What no machine of this project can run, and nobody wants to have run on theirs.
_BY_HAND = {
    "docs/contributors/reliability.md": 1,
    "docs/operators/backup.md": 1,
    "docs/operators/kubernetes.md": 4,
    "docs/operators/personal-data.md": 1,
}
_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_WITH_BLOCKS = [page for page in PAGES if shell_blocks(page)]
_REQUEST = re.compile(r"`(GET|POST) (/v1/[^`?\s]*)")


@pytest.mark.parametrize("page", _WITH_BLOCKS, ids=[page.name for page in _WITH_BLOCKS])
def test_every_block_is_run_here_or_by_something_that_exists(page: Path) -> None:
    found = list(blocks(page))
    assert [block.text for block in found] == shell_blocks(page)
    by_hand = 0
    for block in found:
        if block.is_run_here:
            continue
        by_hand += block.elsewhere.startswith("by hand: ")
        for target in re.findall(r"\bmake ([a-z-]+)", block.elsewhere or block.text):
            assert target in _TARGETS
        for path in re.findall(r"`([\w./-]+\.py)`", block.elsewhere):
            assert (ROOT / path).is_file()
        assert not block.elsewhere or re.match(r"(by hand|`(make )?[\w./-]+`): \w.+\.$", block.elsewhere)
    assert by_hand == _BY_HAND.get(str(page.relative_to(ROOT)), 0)


def test_no_block_of_shell_commands_has_another_language() -> None:
    fenced = {str(page): re.findall(r"^```(\w*)$", page.read_text(), re.MULTILINE) for page in PAGES}
    assert not [page for page, kinds in fenced.items() if {"bash", "shell", "console"} & {*kinds}]
    indented = re.compile(r"^    (make|migration-service|curl) ", re.MULTILINE)
    assert not [page for page in PAGES if indented.search(page.read_text())]


def test_every_page_with_blocks_to_run_is_in_the_index_of_its_reader() -> None:
    """tests/e2e/test_docs.py runs the pages of a folder in the order in which its index links them."""
    for page in (ROOT / "docs").glob("*/*.md"):
        if script(page):
            assert page.parent.name in QUICK + LONG
            assert page.name in links(page.with_name("index.md")), page
    assert not [page for page in (ROOT / "docs").glob("*.md") if script(page)]


def test_every_request_that_a_page_names_exists(app: Flask) -> None:
    routes = {
        (method, re.sub(r"<[^>]*>", "<>", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in rule.methods or ()
    }
    named = {
        (method, re.sub(r"<[^>]*>|NORTHSTAR", "<>", path))
        for page in PAGES
        for method, path in _REQUEST.findall(page.read_text())
    }
    assert len(named) > 8
    assert named <= routes

"""The site has each page as Markdown, and lists them in llms.txt (tools/markdown_pages.py)."""

import re
from pathlib import Path

import pytest
from markdown_pages import write_pages

from documentation.pages import PAGES, ROOT

_DOCS = ROOT / "docs"
_SITE = {page.relative_to(_DOCS).as_posix() for page in PAGES if page.is_relative_to(_DOCS)}
_LISTED = re.compile(r"^- \[[^\]]+\]\(([^)]+)\)(: [^\[]+)?$")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what is added to the site."""
    folder = tmp_path_factory.mktemp("site")
    write_pages(folder)
    return folder


def test_each_page_is_markdown_without_what_only_tests_read(site: Path) -> None:
    written = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.md")}
    assert written.keys() == _SITE
    assert not [name for name, text in written.items() if re.search(r"<!-- (before|exit|elsewhere)", text)]
    assert written["suppliers/quickstart.md"].count("```sh") == (
        (_DOCS / "suppliers/quickstart.md").read_text().count("```sh")
    )


def test_llms_txt_lists_each_page_once_below_its_part_of_the_site(site: Path) -> None:
    name, _, summary, *lines = (site / "llms.txt").read_text().splitlines()
    assert (name, summary[:2]) == ("# Account Migration Import Service", "> ")
    parts = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    readers = ["For suppliers", "For operators", "For migration leads", "For contributors"]
    assert parts == ["Start", *readers, "Optional"]
    items = [line for line in lines if line and not line.startswith("## ")]
    found = [match[1] for match in map(_LISTED.fullmatch, items) if match]
    assert len(found) == len(items)
    assert sorted(found) == sorted(_SITE)
    assert "- [Authentication](suppliers/authentication.md): keys, tokens, and what a 401 means." in items

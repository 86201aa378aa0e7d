"""The site has each page as Markdown, and lists them in llms.txt (tools/markdown_pages.py)."""

import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from markdown_pages import on_env

from documentation.pages import PAGES, ROOT

_DOCS = ROOT / "docs"
_SITE = {page.relative_to(_DOCS).as_posix() for page in PAGES if page.is_relative_to(_DOCS)}
_LISTED = re.compile(r"^- \[[^\]]+\]\(([^)]+)\)(: [^\[]+)?$")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the hook has written, with the pages as mkdocs passes them."""
    folder = tmp_path_factory.mktemp("site")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    pages = {uri: _page(uri) for uri in sorted(_SITE)}
    in_order = []
    for entry in config["nav"]:
        for title, uris in entry.items() if isinstance(entry, dict) else [(None, [entry])]:
            for uri in uris:
                pages[uri].parent = title and SimpleNamespace(title=title)
                in_order.append(pages[uri])
    for page, following in pairwise(in_order):
        page.next_page = following
    files = SimpleNamespace(documentation_pages=lambda: [it.file for it in pages.values()])
    on_env(None, config=config | {"site_dir": str(folder)}, files=files)
    return folder


def _page(uri: str) -> Any:
    path = _DOCS / uri
    page = SimpleNamespace(parent=None, next_page=None, is_homepage=uri == "index.md")
    page.title = path.read_text().splitlines()[0].removeprefix("# ")
    page.file = SimpleNamespace(src_uri=uri, abs_src_path=str(path), page=page)
    return page


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

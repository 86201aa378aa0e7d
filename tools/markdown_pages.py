"""A hook of mkdocs: each page of the site as Markdown, too, and `llms.txt`, which lists them (llmstxt.org).

A page is at its path below docs/, so that links between pages work. What pages say of another page, in the
lists of their indexes, is its description.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

# What tests need to know about the next block, and no reader.
_FOR_TESTS = re.compile(r"^<!-- (?:before|exit|elsewhere): .*? -->\n", re.MULTILINE | re.DOTALL)
_LISTED = re.compile(r"^(?:\d+\.|-) \[[^\]]+\]\(([\w./-]+\.md)\): (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
#: The heading of what a reader may leave out.
_REST = "Optional"


def on_env(env: Any, *, config: Any, files: Any) -> Any:
    """Write the files into the site. mkdocs calls this when it has read all pages."""
    pages = [file.page for file in files.documentation_pages()]
    folder = Path(config["site_dir"])
    for page in pages:
        path = folder / page.file.src_uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(markdown_of(Path(page.file.abs_src_path)))
    text = list_pages(config["site_name"], config["site_description"], _in_order(pages))
    (folder / "llms.txt").write_text(text)
    return env


def markdown_of(page: Path) -> str:
    """Return a page as readers see it."""
    return _FOR_TESTS.sub("", page.read_text())


def list_pages(name: str, description: str, pages: Iterable[Any]) -> str:
    """Return llms.txt: each page below the title of its part of the site, with its description."""
    pages = list(pages)
    told: dict[str, str] = {}
    for page in pages:
        for path, text in _descriptions(Path(page.file.abs_src_path), page.file.src_uri):
            told.setdefault(path, text)
    lines = [f"# {name}", "", f"> {description}"]
    for title, found in groupby(pages, key=_part):
        lines += ["", f"## {title}", ""]
        for page in found:
            path = page.file.src_uri
            lines.append(f"- [{page.title}]({path})" + (f": {told[path]}" if path in told else ""))
    return "\n".join(lines) + "\n"


def _descriptions(page: Path, uri: str) -> Iterator[tuple[str, str]]:
    """Yield what the lists of a page say of other pages, by their paths below docs/."""
    root = page.parents[uri.count("/")]
    for target, text in _LISTED.findall(page.read_text()):
        path = (page.parent / target).resolve()
        if path.is_relative_to(root.resolve()):
            yield path.relative_to(root.resolve()).as_posix(), _LINK.sub(r"\1", text)


def _in_order(pages: list[Any]) -> list[Any]:
    """Return the pages of the navigation in its order, and then the others."""
    found = []
    page = next(it for it in pages if it.is_homepage)
    while page is not None:
        found.append(page)
        page = page.next_page
    return found + sorted((it for it in pages if it not in found), key=lambda it: it.file.src_uri)


def _part(page: Any) -> str:
    if page.parent is not None:
        return str(page.parent.title)
    return "Start" if page.is_homepage else _REST

"""Add to build/site each page as Markdown, and `llms.txt`, which lists them (llmstxt.org): `make site`.

A page is at its path below docs/, so that links between pages work. What pages say of another page, in the
lists of their indexes, is its description.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

_ROOT = Path(__file__).parents[1]
_DOCS = _ROOT / "docs"
# What tests need to know about the next block, and no reader.
_FOR_TESTS = re.compile(r"^<!-- (?:before|exit|elsewhere): .*? -->\n", re.MULTILINE | re.DOTALL)
_LISTED = re.compile(r"^(?:\d+\.|-) \[[^\]]+\]\(([\w./-]+\.md)\): (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def write_pages(site: Path) -> None:
    """Write the files into the folder of the site."""
    config = yaml.safe_load((_ROOT / "mkdocs.yml").read_text())
    parts: dict[str, list[str]] = {"Start": []}
    for entry in config["nav"]:
        parts |= entry if isinstance(entry, dict) else {"Start": [*parts["Start"], entry]}
    named = {path for paths in parts.values() for path in paths}
    pages = {path.relative_to(_DOCS).as_posix(): path.read_text() for path in sorted(_DOCS.rglob("*.md"))}
    # The heading of what a reader may leave out.
    parts["Optional"] = [path for path in pages if path not in named]
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    told: dict[str, str] = {}
    for path in (path for paths in parts.values() for path in paths):
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(_FOR_TESTS.sub("", pages[path]))
        for other, text in _descriptions(path, pages[path]):
            told.setdefault(other, text)
    for part, paths in parts.items():
        lines += ["", f"## {part}", ""]
        for path in paths:
            title = pages[path].splitlines()[0].removeprefix("# ")
            lines.append(f"- [{title}]({path})" + (f": {told[path]}" if path in told else ""))
    (site / "llms.txt").write_text("\n".join(lines) + "\n")


def _descriptions(path: str, page: str) -> Iterator[tuple[str, str]]:
    """Yield what the lists of a page say of other pages, by their paths below docs/."""
    for target, text in _LISTED.findall(page):
        other = (_DOCS / path).parent.joinpath(target).resolve()
        if other.is_relative_to(_DOCS):
            yield other.relative_to(_DOCS).as_posix(), _LINK.sub(r"\1", text)


if __name__ == "__main__":
    write_pages(_ROOT / "build/site")

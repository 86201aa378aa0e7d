"""Reads the pages of the documentation for the tests."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_COMMAND = re.compile(r"migration-(?:service|client) (?:[^`\n\\]|\\\n)+")


def shell_blocks(page: Path) -> list[str]:
    """Return the blocks of shell commands of a page in their order."""
    return _BLOCK.findall(page.read_text())


def links(page: Path) -> list[str]:
    """Return the targets of a page's links."""
    return _LINK.findall(_FENCE.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as they are made from the text."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: Path) -> Iterator[str]:
    """Yield every command of ours in the code of a page, with the rest of its line."""
    text = page.read_text()
    for block in [*shell_blocks(page), *re.findall(r"`(migration-(?:service|client) [^`]+)`", text)]:
        for found in _COMMAND.findall(block):
            yield re.split(r"\s+(?:#|\||>|&&|;)|[;)]", found.replace("\\\n", " "))[0].strip()

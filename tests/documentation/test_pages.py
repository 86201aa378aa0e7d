"""The files, headings, commands and options in the documentation exist."""

import shlex
from pathlib import Path

import click
import pytest

from documentation.pages import PAGES, ROOT, anchors, commands, links
from migration_service.cli import main
from migration_service_client.command import main as client_main

_IDS = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=_IDS)
def test_every_link_has_a_target(page: Path) -> None:
    broken = []
    for link in links(page):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=_IDS)
def test_every_command_exists_and_has_the_options_it_is_shown_with(page: Path) -> None:
    wrong = [line for line in commands(page) if not _exists(line)]
    assert not wrong


def _exists(line: str) -> bool:
    name, *words = shlex.split(line)
    command: click.Command = main if name == "migration-service" else client_main
    context = click.Context(command)
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        found = command.get_command(context, words.pop(0))
        if found is None:
            return False
        command = found
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options |= {"-h", "--help", "--version"}
    return all(word.split("=")[0] in options for word in words if word.startswith("--"))


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    found = [ROOT / "README.md"]
    while found:
        page = found.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
        found += [
            child for target in targets for child in (target.glob("*.md") if target.is_dir() else [target])
        ]
    assert {page for page in PAGES if page not in reached} <= {ROOT / "docs/index.md"}

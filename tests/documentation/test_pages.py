"""The pages: their links and lists, and what others say of the service."""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
from markdown_pages import write_pages
from reference_pages import DOCS, WRITTEN

from documentation.pages import PAGES, ROOT, anchors, commands, links
from migration_service.cli import main
from migration_service.services.access.scopes import Scope
from migration_service.services.reconciliation.differences import NOT_COMPARED
from migration_service.states import BatchState
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


@pytest.mark.parametrize("page", WRITTEN)
def test_a_page_that_is_written_from_the_code_is_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text() == WRITTEN[page](), "run `make docs`"


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


def test_every_scope_is_in_the_table() -> None:
    page = (ROOT / "docs/operators/access.md").read_text()
    (table,) = re.findall(r"^\| scope \|.*\n\|[- |]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [it.value for it in Scope]


_PAGE = ROOT / "docs/migration-leads/reconciliation.md"


def test_the_page_lists_what_is_not_compared() -> None:
    after = _PAGE.read_text().partition("Not compared are:\n\n")[2]
    listed = after.partition("\n\n")[0].replace("\n  ", " ").splitlines()
    assert listed == [f"- {it}" for it in NOT_COMPARED]


_SECURITY = (ROOT / "SECURITY.md").read_text()


def test_every_test_that_it_names_exists() -> None:
    named = set(re.findall(r"`(tests/[a-z0-9_/-]+\.(?:py|md))`", _SECURITY))
    assert len(named) > 25
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_every_target_that_it_names_exists() -> None:
    named = set(re.findall(r"`make ([a-z-]+)", _SECURITY))
    makefile = (ROOT / "Makefile").read_text()
    assert "bench" in named
    assert {name for name in named if f"\n{name}:" not in makefile} == set()


_LOOP = re.compile(r"^while call .+ done$", re.MULTILINE)
_GOES_ON = (BatchState.RUNNING, BatchState.WAITING)
_ENDS = [f'"state": "{state}"' for state in BatchState if state not in _GOES_ON]


@pytest.mark.parametrize("last", [*_ENDS, '"code": "authentication_failed"', ""])
def test_the_loop_ends_with_whatever_is_answered_last(tmp_path: Path, last: str) -> None:
    [loop] = _LOOP.findall((ROOT / "docs/suppliers/quickstart.md").read_text())
    answers = [*(f'"state": "{state}"' for state in _GOES_ON), last]
    for number, answer in enumerate(answers, 1):
        (tmp_path / str(number)).write_text(f"{{{answer}}}")
    # Each call answers with the next file.
    call = 'N=0; call() { N=$((N + 1)); cat "$N"; }'
    loop = re.sub(r"\S+batch\.json", "./batch.json", loop.replace("sleep 1", ":"))
    script = f"API= BATCH=; {call}; {loop}; echo $N"
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"{len(answers)}\n"


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

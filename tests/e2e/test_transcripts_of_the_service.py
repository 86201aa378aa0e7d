"""The commands of each page of tests/transcripts/service print what the page says.

A page has an organisation and a supplier of its own, whose code is the name of the page in capitals, and a
team `Team A`. TOKEN, URL and the variables of both commands are set.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation.pages import ROOT
from documentation.warm_command import warm_command
from drill.scene import Address, Scene, obtain_token
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import create_operations_team
from transcripts.transcript import read_or_write, run

pytestmark = pytest.mark.long

_PAGES = ROOT / "tests/transcripts/service"
_TEAM = "Team A"


@pytest.fixture(scope="module")
def commands(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folders of the commands. Our own have loaded what they import."""
    folder = tmp_path_factory.mktemp("commands")
    with scene.session() as session:
        create_operations_team(session, _TEAM)
    with warm_command(folder):
        yield f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("page", sorted(_PAGES.glob("*.md")), ids=lambda it: it.stem)
def test_the_commands_print_what_the_page_says(
    page: Path, scene: Scene, commands: str, tmp_path: Path
) -> None:
    with scene.session() as session:
        create_organisation(session, page.stem)
        create_import_supplier(session, code=page.stem.upper(), organisation_name=page.stem)
        address = Address(scene.address.url, issue_api_key(session, organisation_name=page.stem))
    environment = {
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "PATH": commands,
        "MIGRATION_SERVICE_HOME": str(scene.home),
        "MIGRATION_CLIENT_URL": address.url,
        "MIGRATION_CLIENT_KEY": address.api_key,
        "URL": f"{address.url}/v1/data-import",
        "TOKEN": obtain_token(address),
    }
    printed = run(page, tmp_path, os.environ | environment)
    assert printed.splitlines() == read_or_write(page, printed).splitlines()

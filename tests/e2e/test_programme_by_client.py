"""A whole migration programme by `migration-client` alone: the page of the migration leads, as they paste it.

MIGRATION_SERVICE_PROGRAMME=5000 runs it with as many accounts as the page has, and starts each command as a
lead starts it. Otherwise they are forked from a process that has imported everything.
"""

import os
import secrets
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from coverage import Coverage

from documentation.pages import ROOT
from documentation.shell import script
from documentation.warm_command import warm_command
from drill.scene import TEAM, Scene
from migration_service.services.setup.suppliers import create_import_supplier
from support.client_command import environment_of
from support.deliveries import BOOK, PAID, SECOND, WRONG, numbers_in, read_new_numbers

pytestmark = pytest.mark.long

_AS_ON_THE_PAGE = 5_000
ACCOUNTS = int(os.environ.get("MIGRATION_SERVICE_PROGRAMME", "300"))
#: What is smaller if the book is.
_SIZES = ("samples 5000", '"sample": 250', '"size": 2000')


@pytest.mark.timeout(max(1_200, ACCOUNTS))
def test_a_programme_is_run_by_the_command_alone_as_its_page_says(scene: Scene, tmp_path: Path) -> None:
    code = f"WESTSTAR_{secrets.token_hex(3).upper()}"
    with scene.session() as session:
        create_import_supplier(session, code=code, organisation_name="Drill")
    printed = _run(scene, tmp_path, _commands(code))
    missing = [
        it for it in ("CLEAN", "WOULD_IMPORT", "REPLACED", "Clean: nothing is open") if it not in printed
    ]
    assert not missing

    first, second = numbers_in(tmp_path / BOOK), numbers_in(tmp_path / SECOND)
    before, after = (read_new_numbers(tmp_path / it) for it in ("before.csv", "numbers.csv"))
    assert after.keys() == second
    assert len(second - first) >= 1
    assert len(first - second) >= 1
    kept = before.keys() & second
    assert {it: after[it] for it in kept} == {it: before[it] for it in kept}, "no customer's number changed"
    owned = scene.query(
        """
        SELECT count(*), count(live_at), count(*) FILTER (WHERE billing_address1 = 'Keizersgracht 1'),
               (SELECT sum(amount) FROM transaction JOIN account AS of ON of.id = account_pk
                WHERE period = 'ADDED' AND of.import_supplier_id = min(account.import_supplier_id))
        FROM account WHERE import_supplier_id = (SELECT id FROM import_supplier WHERE code = %s)""",
        code,
    )
    paid = PAID * len(numbers_in(tmp_path / WRONG))
    assert owned == [(len(second), len(second), ACCOUNTS // 100, paid)]
    # The certificate is verified by whoever knows nothing of the service.
    alone = {"PATH": "/nowhere", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "clients/python/src")}
    verify = [sys.executable, "-m", "migration_service_client", "certificate", "verify", "certificate.ndjson"]
    verified = subprocess.run(verify, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stderr
    assert f"with {len(second)} accounts." in verified.stdout


def _commands(code: str) -> str:
    """Return the commands of the page for a book of ACCOUNTS."""
    commands = (
        script(ROOT / "docs/migration-leads/programme.md").replace("NORTHSTAR", code).replace("Team A", TEAM)
    )
    for text in _SIZES:
        assert text in commands
        name, _, size = text.rpartition(" ")
        commands = commands.replace(text, f"{name} {int(size) * ACCOUNTS // _AS_ON_THE_PAGE}")
    return commands


def _run(scene: Scene, folder: Path, commands: str) -> str:
    """Paste commands into a shell, and return what they printed. `deliver` in them is the supplier."""
    environment = environment_of(scene, folder)
    path = [str(Path(sys.executable).parent), environment["PATH"]]
    with ExitStack() as stack:
        if ACCOUNTS < _AS_ON_THE_PAGE and Coverage.current() is None:
            stack.enter_context(warm_command(folder))
            path.insert(0, str(folder))
        environment |= {"PATH": os.pathsep.join(path)}
        log = folder / "log"
        with log.open("w") as out:
            done = subprocess.run(
                ["bash", "-euc", f"{_DELIVER}\n{commands}"],
                cwd=folder,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
            )
    printed = log.read_text()
    assert done.returncode == 0, printed[-5_000:]
    return printed


#: What the supplier does between two commands of the lead.
_DELIVER = f'deliver() {{ PYTHONPATH="{ROOT / "tests"}" "{sys.executable}" -m support.deliveries; }}'

"""Compares the interface with its description. schemathesis sends valid and invalid requests.

Each operation gets the examples of its description, and a generated request. There is no time limit,
because schemathesis goes on with other requests until it is over. At night there is one: with
`MIGRATION_SERVICE_FUZZ=20` it sends requests for ten minutes, sixty at a time, and follows the links between
operations.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drill.scene import Address, Scene, obtain_token
from migration_service.blueprints.description.examples import PROCESS, SUPPLIER
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import create_operations_team
from support.examples import TIMES

pytestmark = pytest.mark.long

_EXAMPLES = 3 * TIMES if TIMES > 1 else 1
_SECONDS = 30
_AT_NIGHT = (
    *("--max-time", str(_SECONDS * TIMES), "--phases", "examples,fuzzing,stateful,coverage"),
    *("--checks", "response_headers_conformance,use_after_free,ensure_resource_availability,ignored_auth"),
)
_BY_DAY = ("--phases", "examples,fuzzing")
_COMMAND = Path(sys.executable).with_name("schemathesis")
_HOOKS = Path(__file__).with_name("schemathesis_hooks.py")

_ORGANISATION = "Described interface"

# The supplier and the team of the description's examples exist, so that requests pass the first check.
_CONFIGURATION = f"""
[auth.openapi.Token]
api_key = "${{SERVICE_TOKEN}}"

[parameters]
import_supplier_code = "{SUPPLIER}"
import_supplier = "{SUPPLIER}"
"""


def test_no_answer_is_a_5xx_or_differs_from_the_description(scene: Scene, tmp_path: Path) -> None:
    # What the examples name belongs to an organisation of its own, as anything that it has may be changed.
    with scene.session() as session:
        create_organisation(session, _ORGANISATION)
        create_import_supplier(session, code=SUPPLIER, organisation_name=_ORGANISATION)
        create_operations_team(session, str(PROCESS["operations_team_name"]))
        api_key = issue_api_key(session, organisation_name=_ORGANISATION)
    token = obtain_token(Address(scene.address.url, api_key))
    [(session_id, _)] = _sessions_of(scene)
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(_CONFIGURATION)
    finished = subprocess.run(
        [
            str(_COMMAND),
            *("--config-file", str(configuration), "run", f"{scene.address.url}/v1/openapi.json"),
            *("--checks", "not_a_server_error,status_code_conformance,content_type_conformance"),
            *("--checks", "response_schema_conformance"),
            *("--max-examples", str(_EXAMPLES), *(_AT_NIGHT if TIMES > 1 else _BY_DAY)),
            *("--seed", "1", "--suppress-health-check", "all", "--generation-database", "none"),
            *("--workers", "2", "--no-color"),
        ],
        check=False,
        cwd=tmp_path,
        env=os.environ
        | {
            "SERVICE_TOKEN": token,
            "SERVICE_SESSION": session_id,
            "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
            "PYTHONPATH": str(_HOOKS.parent),
        },
        capture_output=True,
        text=True,
        timeout=_SECONDS * TIMES * 4 + 60,
    )
    assert finished.returncode == 0, finished.stdout[-6000:] + finished.stderr[-2000:]
    assert _sessions_of(scene) == [(session_id, False)], "ended: all that followed was answered 401"


def _sessions_of(scene: Scene) -> list[tuple[str, bool]]:
    """Return the ID of each session of the organisation, and whether it was ended."""
    return scene.query(
        "SELECT token_session.id::text, ended_at IS NOT NULL FROM token_session "
        "JOIN api_key ON api_key.id = api_key_id JOIN organisation ON organisation.id = organisation_id "
        "WHERE organisation.name = %s",
        _ORGANISATION,
    )

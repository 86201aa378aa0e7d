"""Runs every phase of schemathesis over a running service. The token is sent as the description says.

`make fuzz` runs this. Further arguments are those of schemathesis: ARGS="--max-time 600 --max-examples 200".
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from scratch_service import COMMAND, running_service, wait_until

from migration_service.blueprints.description.examples import PROCESS, SUPPLIER
from migration_service_local.demo.sample import KEY_FILE, ORGANISATION

_CONFIGURATION = """
[auth.openapi.Token]
api_key = "${{SERVICE_TOKEN}}"

[parameters]
import_supplier_code = "{supplier}"
import_supplier = "{supplier}"
"""
# These checks are left out, because a description cannot express what they need. A payload of the right form
# may still break a rule (positive_data_acceptance). An unknown field of an account is no error
# (negative_data_rejection).
_CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,use_after_free,ensure_resource_availability,ignored_auth,unsupported_method"
)


def main(arguments: list[str]) -> int:
    """Run schemathesis, and return its exit status."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with running_service(folder / "home", 1) as settings:
            key_file = folder / "home" / KEY_FILE
            wait_until(key_file.exists, "the API key of the sample")
            address = settings["MIGRATION_SERVICE_WEB_URL"]
            token = obtain_token(address, key_file.read_text())
            environment = os.environ | {
                "MIGRATION_SERVICE_HOME": str(folder / "home"),
                "SERVICE_TOKEN": token,
                "SERVICE_SESSION": newest_session(address, token),
                "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
            }
            set_up_examples(environment)
            configuration = folder / "schemathesis.toml"
            configuration.write_text(_CONFIGURATION.format(supplier=SUPPLIER))
            command = [str(COMMAND.with_name("schemathesis")), "--config-file", str(configuration)]
            command += ["run", f"{address}/v1/openapi.json", "--checks", _CHECKS, "--continue-on-failure"]
            command += ["--suppress-health-check", "all", "--generation-database", "none", "--workers", "2"]
            return subprocess.run([*command, *arguments], check=False, env=environment).returncode


def obtain_token(address: str, api_key: str) -> str:
    """Return a token for the API key."""
    query = "mutation ($key: String!) { obtainServiceToken(input: {APIKey: $key}) { token } }"
    body = json.dumps({"query": query, "variables": {"key": api_key.strip()}}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/v1/graphql/", data=body, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return str(json.load(answer)["data"]["obtainServiceToken"]["token"])


def newest_session(address: str, token: str) -> str:
    """Return the ID of the session that began last."""
    headers = {"Authorization": f"Token {token}"}
    request = urllib.request.Request(f"{address}/v1/data-import/sessions/?limit=1", headers=headers)  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return str(json.load(answer)[0]["session_id"])


def set_up_examples(environment: dict[str, str]) -> None:
    """Create the supplier and the team that the description's examples name."""
    team = PROCESS["operations_team_name"]
    for command in (
        ["suppliers", "create", SUPPLIER, "--organisation", ORGANISATION],
        ["teams", "create", team],
    ):
        subprocess.run([str(COMMAND), *command], check=True, env=environment, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

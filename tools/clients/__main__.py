"""Generates clients from the description of a running service, and runs the whole migration with each.

`make clients` runs this. It needs node and npm. The generated clients are in .make/clients.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path
from typing import Any

from migration_service.config import load_saved_settings
from migration_service_local.demo.migration import VENDOR, add_to_account
from migration_service_local.demo.sample import KEY_FILE, ORGANISATION, TEAM
from migration_service_local.samples import generate_accounts
from support.servers import COMMAND, RunningService

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent.parent / ".make" / "clients"
PYTHON = FOLDER / "venv" / "bin" / "python"
DESCRIPTION = FOLDER / "openapi.json"


def main() -> None:
    """Generate every client, run its flow, and report it. Exit with the status of the first that fails."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed, and make clients needs it.")
    install()
    with tempfile.TemporaryDirectory(prefix="clients-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with RunningService(folder / "home", "--sample", "1") as service:
            service.wait_until_serving()
            key_file = folder / "home" / KEY_FILE
            address = load_saved_settings(folder / "home")["MIGRATION_SERVICE_WEB_URL"]
            with urllib.request.urlopen(f"{address}/v1/openapi.json") as answer:  # noqa: S310
                DESCRIPTION.write_bytes(answer.read())
            environment = os.environ | {
                "SERVICE_ADDRESS": address,
                "SERVICE_API_KEY": key_file.read_text().strip(),
                "MIGRATION_SERVICE_HOME": str(folder / "home"),
            }
            for number, flow in enumerate((openapi_python_client, openapi_fetch)):
                order = write_order(f"CLIENT_{number}", environment)
                flow(environment | {"SERVICE_ORDER": str(order)})
                print(f"ok: {flow.__name__}")


def install() -> None:
    """Install the generators, once."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not PYTHON.exists():
        venv.create(FOLDER / "venv", with_pip=True)
    run(str(PYTHON), "-m", "pip", "install", "--quiet", "--requirement", str(HERE / "requirements.txt"))
    shutil.copy(HERE / "package.json", FOLDER)
    run("npm", "install", "--no-audit", "--no-fund", "--silent", cwd=FOLDER)


def write_order(supplier: str, environment: dict[str, str]) -> Path:
    """Create a supplier for a client, and write the order that the client carries out."""
    command = [str(COMMAND), "suppliers", "create", supplier, "--organisation", ORGANISATION]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    accounts = list(generate_accounts(4, supplier=supplier, seed=5))
    order: dict[str, Any] = {"supplier": supplier, "team": TEAM, "vendor": VENDOR, "accounts": accounts}
    pair = {"import_supplier", "external_account_number"}
    for operation, members in add_to_account(accounts[0]):
        kind = operation.removeprefix("create_").removeprefix("historical_")
        order[kind] = {name: value for name, value in members.items() if name not in pair}
    path = FOLDER / f"{supplier}.json"
    path.write_text(json.dumps(order))
    return path


def openapi_python_client(environment: dict[str, str]) -> None:
    """Generate a client with openapi-python-client, and run its flow."""
    generator, out = PYTHON.with_name("openapi-python-client"), FOLDER / "openapi-python-client"
    path = f"{PYTHON.parent}:{environment['PATH']}"
    run(
        *(str(generator), "generate", "--path", str(DESCRIPTION), "--output-path", str(out), "--overwrite"),
        env=environment | {"PATH": path},
        quiet=True,
    )
    script = str(HERE / "flow_openapi_python_client.py")
    run(str(PYTHON), script, env=environment | {"PYTHONPATH": str(out)})


def openapi_fetch(environment: dict[str, str]) -> None:
    """Generate the types of the interface with openapi-typescript, compile the flow with them, and run it."""
    out = FOLDER / "typescript"
    out.mkdir(exist_ok=True)
    (out / "package.json").write_text('{"type": "module"}')
    shutil.copy(HERE / "flow.ts", out)
    programs = FOLDER / "node_modules" / ".bin"
    run(str(programs / "openapi-typescript"), str(DESCRIPTION), "-o", str(out / "schema.d.ts"), quiet=True)
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "--types", "node"]
    run(str(programs / "tsc"), *options, "flow.ts", cwd=out)
    run("node", "flow.js", cwd=out, env=environment)


def run(*command: str, quiet: bool = False, **options: Any) -> None:
    """Run a program. If it fails, exit with its output."""
    finished = subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        **options,
    )
    if finished.returncode:
        sys.exit(f"{' '.join(command[:2])} failed.\n{(finished.stdout or b'').decode()[-4000:]}")


if __name__ == "__main__":
    main()

"""Runs the containers of docker-compose.yml: `make compose-check`.

It starts everything under a new project name, with free ports and new secrets, and migrates a sample book
through the REST interface. Then it scales to three web and four worker containers, migrates as many accounts
again, and ten times as many in a batch. Each container must have done some of the work. At the end everything
is removed, including the volumes. This needs a container engine and docker-compose 1.29 or newer.
PYTHON_IMAGE, POSTGRES_IMAGE, VALKEY_IMAGE and NGINX_IMAGE can name other base images. With --debian they are
made of Debian's packages.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import requests
import yaml
from checks import ROOT, CheckError, exit_with, inspect, log_of, run, runbook_commands, say
from debian_images import make_images

from documentation.shell import blocks
from migration_service_client import Client, ClientError
from migration_service_local.samples import generate_accounts, write_lines
from migration_service_local.servers.ports import random_free_port

SUPPLIER, TEAM = "COMPOSE_CHECK", "Compose check team"
WORKERS = ("worker", "worker-batch", "worker-vendors", "worker-deliveries", "worker-maintenance")
SERVICES = ("postgres", "valkey", "web", "proxy", *WORKERS, "beat", "flower")
READY_SECONDS = 900
#: Accounts of each of the two rounds.
ACCOUNTS = 100


class Project:
    """One docker-compose project. Every command of it is run here."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.name = f"compose-check-{os.getpid()}"
        self._environment = os.environ | environment
        self._compose = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]

    def compose(self, *arguments: str) -> str:
        """Return the standard output of a docker-compose command.

        Raise CheckError with its output if it fails.
        """
        return run(*self._compose, "-p", self.name, *arguments, cwd=ROOT, env=self._environment).stdout

    def command(self, *arguments: str) -> dict[str, object]:
        """Run the operators' command in a web container, and return its JSON output."""
        answer = self.compose("exec", "-T", "web", "migration-service", *arguments, "--json")
        return dict(json.loads(answer))

    def paste(self, commands: str) -> None:
        """Run shell commands that call docker-compose, for this project."""
        # A reader has a terminal.
        exact = commands.replace("docker-compose exec ", "docker-compose exec -T ")
        compose = f'docker-compose() {{ command {" ".join(self._compose)} -p {self.name} "$@"; }}\n'
        run("bash", "-euc", compose + exact, cwd=ROOT, env=self._environment)

    def containers(self, service: str) -> list[str]:
        """Return the ids of a service's containers."""
        return self.compose("ps", "-q", service).split()


def make_environment(folder: Path) -> dict[str, str]:
    """Return free ports, and make new secrets in the folder, so that no other service is affected."""
    proxy, flower = random_free_port(), random_free_port()
    environment = {
        "MIGRATION_SERVICE_SECRETS": str(folder),
        "WEB_PORT": f"127.0.0.1:{proxy}",
        "FLOWER_PORT": f"127.0.0.1:{flower}",
    }
    folder.mkdir(mode=0o700)
    (folder / "MIGRATION_SERVICE_METRICS_TOKEN").write_text(secrets.token_urlsafe(16))
    (folder / "MIGRATION_SERVICE_METRICS_TOKEN").chmod(0o444)
    run("sh", str(ROOT / "deployment/secrets.sh"), env=os.environ | environment, cwd=folder)
    return environment


def wait_until_healthy(project: Project, services: tuple[str, ...]) -> None:
    """Return when every container of these services is healthy."""
    deadline = time.monotonic() + READY_SECONDS
    for container in itertools.chain.from_iterable(map(project.containers, services)):
        while (state := inspect(container, "{{.State.Health.Status}}")) != "healthy":
            if time.monotonic() > deadline or state == "unhealthy":
                raise CheckError(f"{container} is {state}:\n{log_of(container)[-3000:]}")
            time.sleep(1)


def check_hardening(project: Project) -> None:
    """Check that our own containers are read-only, and run as an ordinary user without capabilities."""
    for service in ("web", *WORKERS, "beat", "flower"):
        for container in project.containers(service):
            template = "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.Config.User}}"
            found = inspect(container, template)
            if found != "true [ALL] migration":
                raise CheckError(f"{service} is not restricted as expected: {found}")


def check_secrets(project: Project, folder: Path) -> None:
    """Check that each container has the secrets of the file, as files, and none in its environment."""
    values = {text for file in folder.iterdir() if (text := file.read_text().strip())}
    described = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for service in SERVICES:
        expected = set(described[service]["secrets"])
        for container in project.containers(service):
            known = inspect(container, "{{json .Config}}")
            if any(text in known for text in values):
                raise CheckError(f"The engine shows a secret of {service}.")
            mounts = inspect(container, "{{range .Mounts}}{{.Destination}} {{end}}").split()
            found = {name for name in mounts if name.startswith("/run/secrets/")}
            if found != {f"/run/secrets/{name}" for name in expected}:
                raise CheckError(f"{service} has the secrets {sorted(found)}. Expected: {sorted(expected)}.")


def migrate(url: str, certificate: str | None, api_key: str, first: int, last: int) -> float:
    """Migrate a part of the sample book. Return the seconds that it took."""
    book = generate_accounts(last - first, supplier=SUPPLIER, seed=1, first=first)
    started = time.monotonic()
    with client_of(url, certificate, api_key) as client, ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda account: client.create_account(account, operations_team_name=TEAM), book))
    return time.monotonic() - started


def migrate_batch(url: str, certificate: str | None, api_key: str, first: int, last: int) -> float:
    """Import a part of the sample book as one batch. Return the seconds that it took."""
    lines = write_lines(generate_accounts(last - first, supplier=SUPPLIER, seed=1, first=first))
    started = time.monotonic()
    with client_of(url, certificate, api_key) as client:
        order = client.start_batch(lines, import_supplier=SUPPLIER, mode="import", operations_team_name=TEAM)
        counts = client.wait_for_batch(order.batch_id).counts
    if counts["IMPORTED"] != last - first:
        raise CheckError(f"The batch imported {counts}.")
    return time.monotonic() - started


@contextmanager
def client_of(url: str, certificate: str | None, api_key: str) -> Iterator[Client]:
    """Yield a supplier's client. Raise CheckError if the service refuses what it sends."""
    try:
        with Client(url, api_key, ca_file=certificate) as client:
            yield client
    except ClientError as error:
        raise CheckError(f"The client failed: {error}") from error


def check_everybody_worked(project: Project) -> None:
    """Check that each web container answered process requests, and each worker created accounts."""
    for service, sign in (("web", "account-import-process/process/ 201"), ("worker", '"state": "SUCCESS"')):
        done = [log_of(container).count(sign) for container in project.containers(service)]
        say(f"{service}: {' + '.join(map(str, done))}")
        if not all(done):
            raise CheckError(f"A container of {service} did no work: {done}")


def check_metrics(address: str, certificate: str, token: str, accounts: int) -> None:
    """Check that /metrics requires its token from outside, and counts the imported accounts in time."""
    url = address + "/metrics"
    if requests.get(url, verify=certificate, timeout=10).status_code != requests.codes.unauthorized:
        raise CheckError("/metrics answers without its token.")
    wanted = f'migration_accounts{{state="IMPORTED",supplier="{SUPPLIER}"}} {accounts}.0'
    deadline = time.monotonic() + 60
    while True:
        text = requests.get(
            url, headers={"Authorization": f"Bearer {token}"}, verify=certificate, timeout=10
        ).text
        if wanted in text:
            return
        if time.monotonic() > deadline:
            raise CheckError(f"/metrics does not have {wanted!r}:\n{text}")
        time.sleep(2)


@contextmanager
def running(project: Project) -> Iterator[None]:
    """Start the project, and yield it when it is healthy. Remove it at the end."""
    try:
        # The public image creates the roles at its first start. They are created again, as for an earlier
        # volume.
        project.compose("up", "-d", "postgres")
        wait_until_healthy(project, ("postgres",))
        project.compose("exec", "-T", "postgres", "sh", "/docker-entrypoint-initdb.d/roles.sh")
        project.compose("up", "-d", "--build")
        wait_until_healthy(project, SERVICES)
        yield
    except CheckError:
        with tempfile.NamedTemporaryFile("w", prefix="compose-check-", suffix=".log", delete=False) as log:
            log.write(project.compose("logs", "--no-color"))
        say(f"the logs are in {log.name}")
        raise
    finally:
        say("down")
        project.compose("down", "--volumes", "--timeout", "45")


def check_runbooks(project: Project, port: str) -> None:
    """Run what the runbooks say for containers, and the upgrade, as an operator pastes them."""
    commands = runbook_commands(column=2)
    commands += [
        block.text
        for block in blocks(ROOT / "docs/operators/backup.md")
        if "make compose-check" in block.elsewhere
    ]
    for command in commands:
        say(f"as an operator: {command.strip().splitlines()[0]}")
        exact = command.replace("QUEUE", "batch").replace("SERVICE", "beat").replace("127.0.0.1:8443", port)
        project.paste(exact)
        if "kill" in command:
            project.compose("up", "-d", "--no-recreate")
        if not command.endswith(("doctor", "ps", "15m", "ready")):
            wait_until_healthy(project, SERVICES)


def check(folder: Path) -> None:
    """Run all checks, with secrets in a new folder. Raise CheckError if one fails."""
    count = ACCOUNTS
    environment = make_environment(folder)
    project = Project(environment)
    url, certificate = f"https://{environment['WEB_PORT']}", str(folder / "TLS_CERTIFICATE")
    say("build and up")
    started = time.monotonic()
    with running(project):
        say(f"everything is healthy after {time.monotonic() - started:.0f} s")
        check_hardening(project)
        check_secrets(project, folder)
        project.command("organisations", "create", "Compose check")
        project.command("suppliers", "create", SUPPLIER, "--organisation", "Compose check")
        project.command("teams", "create", TEAM)
        api_key = str(project.command("api-keys", "issue", "--organisation", "Compose check")["api_key"])
        seconds = migrate(url, certificate, api_key, 0, count)
        say(f"{count} accounts through one web and one worker container in {seconds:.1f} s")
        project.compose("up", "-d", "--no-recreate", "--scale", "web=3", "--scale", "worker=4")
        wait_until_healthy(project, SERVICES)
        seconds = migrate(url, certificate, api_key, count, 2 * count)
        say(f"{count} more through three web and four worker containers in {seconds:.1f} s")
        check_everybody_worked(project)
        check_hardening(project)
        seconds = migrate_batch(url, certificate, api_key, 2 * count, 12 * count)
        say(f"{10 * count} more as a batch in {seconds:.1f} s")
        check_runbooks(project, environment["WEB_PORT"])
        check_metrics(url, certificate, (folder / "MIGRATION_SERVICE_METRICS_TOKEN").read_text(), 12 * count)


def main() -> None:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--debian", action="store_true", help="make the base images of Debian's packages")
    os.environ.update(make_images() if parser.parse_args().debian else {})
    with tempfile.TemporaryDirectory(prefix="compose-check-") as folder:
        check(Path(folder) / "secrets")


if __name__ == "__main__":
    exit_with(main)

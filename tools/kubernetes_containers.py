"""Runs the containers of deployment/kubernetes as a node would: `make kubernetes-containers`.

The image is that of docker-compose.yml, and so is PostgreSQL. Every container of the overlay is
started with the command, user, restrictions, settings and files of its manifest, without an init process. It
is asked by its probes, migrates a few accounts through nginx, and is told to end as a pod is. This needs a
container engine, docker-compose 1.29 or newer, and root, who gives the files of a Secret to the group of the
pod. POSTGRES_IMAGE, VALKEY_IMAGE and NGINX_IMAGE can name other base images. With --debian they are made of
Debian's packages. What belongs to a cluster is not tried: nodes, Services, policies, operators.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import requests
from checks import CheckError, docker, exit_with, inspect, log_of, runbook_commands, say
from compose_check import SUPPLIER, TEAM, Project, make_environment, migrate, wait_until_healthy
from debian_images import make_images
from kubernetes_check import OVERLAY, build, pods

from migration_service_local.servers.ports import random_free_port

ACCOUNTS = 50
#: The variable that names another image for one of the manifests.
_IMAGES = {
    "registry.example.com/migration-service:1": "MIGRATION_SERVICE_IMAGE",
    "valkey/valkey:9": "VALKEY_IMAGE",
    "nginxinc/nginx-unprivileged:1.29": "NGINX_IMAGE",
}
#: The seconds for which a web server that is told to end still answers, and a part of them.
_LEAVING = 10.0


class Container:
    """One container of a pod."""

    def __init__(self, node: Node, pod: str, container: dict[str, Any]) -> None:
        self._said = container
        self.name = f"{node.name}-{pod}-{container['name']}"
        self.grace = node.pods[pod].get("terminationGracePeriodSeconds", 30)
        self._pod = f"{node.name}-{pod}-service"

    @property
    def address(self) -> str:
        """The address of the pod."""
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
        return inspect(self._pod, template).split()[0]

    def wait_until_started(self) -> None:
        """Ask the startup probe as often as it says, and then each other probe once."""
        first = next((kind for kind in ("startupProbe", "readinessProbe") if kind in self._said), None)
        if first is None:
            return
        started = time.monotonic()
        for _ in range(self._said[first]["failureThreshold"]):
            if self.answers(first):
                break
            time.sleep(self._said[first]["periodSeconds"])
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            if kind in self._said and not self.answers(kind):
                raise CheckError(f"{kind} of {self.name} fails:\n{log_of(self.name)[-3000:]}")
        say(f"{self.name}: its probes succeed after {time.monotonic() - started:.1f} s")

    def answers(self, kind: str) -> bool:
        """Ask a probe, as the node does."""
        probe = self._said[kind]
        timeout = probe.get("timeoutSeconds", 1)
        if "exec" in probe:
            return docker("exec", self.name, *probe["exec"]["command"], check=False).returncode == 0
        asked = probe.get("httpGet") or probe["tcpSocket"]
        port = next(it["containerPort"] for it in self._said["ports"] if it["name"] == asked["port"])
        try:
            if "tcpSocket" in probe:
                socket.create_connection((self.address, port), timeout).close()
                return True
            url = f"http://{self.address}:{port}{asked['path']}"
            return requests.get(url, timeout=timeout).ok
        except OSError:  # that of requests, too
            return False

    def end(self) -> None:
        """Tell it to end. Check that it does before the node would kill it, and with status 0."""
        started = time.monotonic()
        docker("stop", "--time", str(self.grace), self.name)
        self.check_end(time.monotonic() - started, inspect(self.name, "{{.State.ExitCode}}"))

    def check_end(self, seconds: float, status: str) -> None:
        """Check that it has ended by itself in time."""
        say(f"{self.name}: ends after {seconds:.1f} of {self.grace} s with status {status}")
        if status != "0" or seconds > self.grace:
            raise CheckError(f"{self.name} does not end by itself:\n{log_of(self.name)[-3000:]}")


class Node:
    """What a node does with the pods of an overlay."""

    def __init__(self, project: Project, secrets: Path, folder: Path) -> None:
        manifests = build(OVERLAY)
        self.name = project.name
        self.pods = pods(manifests)
        self._project, self._folder = project, folder
        self._config = {it["metadata"]["name"]: it["data"] for it in manifests if it["kind"] == "ConfigMap"}
        self._secrets = {
            "service-secrets": {file.name: file.read_text() for file in secrets.iterdir()},
            "service-tls": {
                "tls.crt": (secrets / "TLS_CERTIFICATE").read_text(),
                "tls.key": (secrets / "TLS_KEY").read_text(),
            },
        }
        self.started: list[Container] = []

    def start(self, pod: str, *options: str) -> list[Container]:
        """Start the containers of a pod, and wait for their probes. Return the service's own first."""
        said = self.pods[pod]
        containers: list[Container] = []
        # A pod's containers have one network. Here, it is that of the service.
        for container in [*said["containers"], *said.get("initContainers", ())]:
            one = Container(self, pod, container)
            main = container["name"] in {"service", pod}
            network = [f"--network={self.name}_broker", "--hostname", pod, *options]
            image = os.environ.get(_IMAGES[container["image"]], container["image"])
            command = container["command"]
            docker(
                *("run", "--detach", "--name", one.name, "--read-only", "--entrypoint", command[0]),
                *(network if main else [f"--network=container:{containers[0].name}"]),
                *self._restrictions(said, container),
                *self._environment(container),
                *self._mounts(said, container),
                *(image, *command[1:]),
            )
            if main:
                docker("network", "connect", f"{self.name}_database", one.name)
            containers.append(one)
            self.started.append(one)
        for one in containers:
            one.wait_until_started()
        return containers

    @staticmethod
    def _restrictions(pod: dict[str, Any], container: dict[str, Any]) -> list[str]:
        own = pod["securityContext"] | container["securityContext"]
        memory = container["resources"]["limits"]["memory"].replace("i", "").lower()
        return [
            f"--user={own['runAsUser']}:{own['runAsGroup']}",
            f"--group-add={own['fsGroup']}",
            *(f"--cap-drop={name}" for name in own["capabilities"]["drop"]),
            "--security-opt=no-new-privileges:true",
            f"--memory={memory}",
        ]

    def _environment(self, container: dict[str, Any]) -> list[str]:
        given: dict[str, str] = {}
        for source in container.get("envFrom", ()):
            given |= self._config[source["configMapRef"]["name"]]
        given |= {it["name"]: it["value"] for it in container.get("env", ())}
        # The sample book is sent to this machine.
        given.pop("MIGRATION_SERVICE_ALLOWED_HOSTS", None)
        return [f"--env={name}={value}" for name, value in given.items()]

    def _mounts(self, pod: dict[str, Any], container: dict[str, Any]) -> list[str]:
        volumes = {it["name"]: it for it in pod["volumes"]}
        group = pod["securityContext"]["fsGroup"]
        found = []
        for mount in container["volumeMounts"]:
            volume = volumes.get(mount["name"], {"emptyDir": {}})
            path = mount["mountPath"]
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            os.chown(folder, 0, group)
            if "emptyDir" in volume:
                folder.chmod(0o2777)
                found += ["--mount", f"type=bind,source={folder},destination={path}"]
                continue
            folder.chmod(0o750)
            for name, text in self._files(volume).items():
                (folder / name).write_text(text)
                os.chown(folder / name, 0, group)
                (folder / name).chmod(0o640)
            found += ["--mount", f"type=bind,source={folder},destination={path},readonly"]
        return found

    def _files(self, volume: dict[str, Any]) -> dict[str, str]:
        if "configMap" in volume:
            return dict(self._config[volume["configMap"]["name"]])
        secret = volume["secret"]
        return {it["path"]: self._secrets[secret["secretName"]][it["key"]] for it in secret["items"]}

    def remove(self) -> None:
        """Remove all containers."""
        for one in self.started:
            docker("rm", "--force", "--volumes", one.name, check=False)


def check(folder: Path) -> None:
    """Run all checks. Raise CheckError if one fails."""
    environment = make_environment(folder / "secrets")
    project = Project(environment)
    node = Node(project, folder / "secrets", folder)
    try:
        say("build")
        project.compose("build", "web")
        project.compose("up", "-d", "postgres", "valkey")
        wait_until_healthy(project, ("postgres", "valkey"))
        project.compose("exec", "-T", "postgres", "sh", "/docker-entrypoint-initdb.d/roles.sh")
        project.compose("rm", "--stop", "--force", "valkey")
        node.start("valkey", "--network-alias=valkey")
        _run_revisions(node)
        port = random_free_port()
        web, proxy = node.start("web", f"--publish=127.0.0.1:{port}:8443")
        others = [
            one
            for name in node.pods
            if name not in {"valkey", "web", "revisions"}
            for one in node.start(name)
        ]
        _migrate(web, port, folder / "secrets/TLS_CERTIFICATE")
        _try_runbooks(node)
        _end_web(web, proxy, f"https://127.0.0.1:{port}/health/live", str(folder / "secrets/TLS_CERTIFICATE"))
        # A node ends a container that is always restarted after the others of its pod.
        for one in sorted(others, key=lambda one: one.name.endswith("-proxy")):
            one.end()
        node.started[0].end()
    finally:
        node.remove()
        project.compose("down", "--volumes", "--timeout", "45")


def _run_revisions(node: Node) -> None:
    (revisions,) = node.start("revisions")
    status = docker("wait", revisions.name).stdout.strip()
    say(f"{revisions.name}: {log_of(revisions.name).strip()}")
    if status != "0":
        raise CheckError(f"The revisions end with {status}.")


def _migrate(web: Container, port: int, certificate: Path) -> None:
    def command(*arguments: str) -> dict[str, Any]:
        return dict(json.loads(docker("exec", web.name, "migration-service", *arguments, "--json").stdout))

    command("organisations", "create", "Check")
    command("suppliers", "create", SUPPLIER, "--organisation", "Check")
    command("teams", "create", TEAM)
    key = str(command("api-keys", "issue", "--organisation", "Check")["api_key"])
    seconds = migrate(f"https://127.0.0.1:{port}", str(certificate), key, 0, ACCOUNTS)
    say(f"{ACCOUNTS} accounts through nginx in {seconds:.1f} s")


def _try_runbooks(node: Node) -> None:
    """Run what the runbooks run in a container. The doctor finds wrong what has not been started."""
    for command in runbook_commands(column=3):
        if found := re.fullmatch(r"kubectl exec deploy/(\w+) -c (\w+) -- (.+)", command):
            pod, container, inside = found.groups()
            say(f"in {pod}, as an operator: {inside}")
            done = docker("exec", f"{node.name}-{pod}-{container}", *shlex.split(inside), check=False)
            if done.returncode not in ({0, 1} if "doctor" in inside else {0}) or not done.stdout:
                raise CheckError(f"{command} ends with {done.returncode}: {done.stderr}")


def _end_web(web: Container, proxy: Container, url: str, certificate: str) -> None:
    """Check that a web server that is told to end is not ready, and still answers for a while."""
    docker("kill", "--signal=TERM", web.name)
    until = time.monotonic() + _LEAVING / 2
    time.sleep(1)
    while time.monotonic() < until:
        if web.answers("readinessProbe"):
            raise CheckError("A web server that was told to end is still ready.")
        if requests.get(url, verify=certificate, timeout=5).status_code != requests.codes.ok:
            raise CheckError("A web server that was told to end does not answer.")
    status = docker("wait", web.name).stdout.strip()
    web.check_end(time.monotonic() - until + _LEAVING / 2, status)
    proxy.end()


def main() -> None:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--debian", action="store_true", help="make the base images of Debian's packages")
    os.environ["MIGRATION_SERVICE_IMAGE"] = "migration-service:latest"
    os.environ.update(make_images() if parser.parse_args().debian else {})
    with tempfile.TemporaryDirectory(prefix="kubernetes-containers-") as folder:
        Path(folder).chmod(0o755)
        check(Path(folder))


if __name__ == "__main__":
    exit_with(main)

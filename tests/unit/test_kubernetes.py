"""deployment/kubernetes: what `kubectl kustomize` makes of it, and what docker-compose.yml says, too."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from kubernetes_check import OVERLAY, ManifestError, build, check, describe, pods
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from migration_service.config import Settings
from migration_service.states import BatchKind, BatchState, ChunkState, ImportState
from migration_service.tasks.names import QUEUES
from migration_service_local.servers.postgres import DATABASE
from support.deployment_files import ROOT, options
from support.factories import Customer
from support.rows import add_chunk, make_batch
from support.servers import EmbeddedServers

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
#: Each pod, and its service in docker-compose.yml.
SAME = {
    "revisions": "revisions",
    "web": "web",
    "console": "web",
    "worker-interactive": "worker",
    "worker-batch": "worker-batch",
    "worker-vendors": "worker-vendors",
    "worker-deliveries": "worker-deliveries",
    "worker-maintenance": "worker-maintenance",
    "beat": "beat",
}
MANIFESTS = build(OVERLAY)
PODS = pods(MANIFESTS)
#: The examples for operators.
EXAMPLES = (ROOT / "docs/operators/kubernetes-operators.md").read_text()
EXAMPLE_MANIFESTS = [
    it for block in re.findall(r"```yaml\n(.*?)```", EXAMPLES, re.DOTALL) for it in yaml.safe_load_all(block)
]
pod = pytest.mark.parametrize("name", SAME)


def service(name: str) -> dict[str, Any]:
    """Return the container of the service in a pod."""
    (found,) = PODS[name]["containers"]
    return dict(found)


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [it for it in MANIFESTS if it["kind"] == kind]


def labels(name: str) -> dict[str, str]:
    (found,) = (it for it in MANIFESTS if it["metadata"]["name"] == name and "template" in it.get("spec", {}))
    return dict(found["spec"]["template"]["metadata"]["labels"])


def selects(selector: dict[str, Any], name: str) -> bool:
    """Return whether a selector of labels has these pods."""
    own = labels(name)
    for wanted in selector.get("matchExpressions", ()):
        assert wanted["operator"] == "In"
        if own.get(wanted["key"]) not in wanted["values"]:
            return False
    wanted = dict(selector.get("matchLabels", {}))
    return wanted.items() <= own.items()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_overlay_is_built_as_kustomize_builds_it() -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(OVERLAY)], check=True, capture_output=True, text=True
    ).stdout
    without_hashes = re.sub(r"\b(settings|nginx)-[a-z0-9]{10}\b", r"\1", built)
    expected = {describe(it): it for it in yaml.safe_load_all(without_hashes)}
    assert {describe(it): it for it in MANIFESTS} == expected


def test_a_mistake_in_a_manifest_is_found_and_otherwise_there_is_none() -> None:
    assert check(MANIFESTS) == []
    wrong = deepcopy(MANIFESTS)
    pods(wrong)["web"]["containers"][0]["readinessProbe"]["httpGet"]["prot"] = "http"
    assert [line.partition(":")[0] for line in check(wrong)] == ["Deployment web"]


@pytest.mark.parametrize(
    "said",
    [
        {"resources": [], "helmCharts": []},
        {"resources": ["a.yaml", "a.yaml"]},
        {"resources": ["a.yaml"], "patches": [{"target": {"kind": "Service", "name": "b"}, "patch": "{}"}]},
        {
            "resources": ["a.yaml"],
            "patches": [{"target": {"kind": "Service", "name": "a"}, "patch": "spec: {ports: [{port: 2}]}"}],
        },
    ],
)
def test_what_the_builder_does_not_know_is_refused(said: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 1}]}")
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(said))
    with pytest.raises(ManifestError):
        build(tmp_path)


@pod
def test_a_container_has_the_command_and_the_memory_of_the_compose_file(name: str) -> None:
    default = re.compile(r"\$\{\w+:-(.*?)\}")
    compose = COMPOSE[SAME[name]]
    command = [default.sub(r"\1", word) for word in compose["command"]]
    assert service(name)["command"] == command
    limit = service(name)["resources"]["limits"]["memory"]
    assert limit.replace("Gi", "g").replace("Mi", "m") == default.sub(r"\1", compose["mem_limit"])


@pod
def test_a_container_has_the_settings_and_the_secrets_of_the_compose_file(name: str) -> None:
    given = {it["name"]: it["value"] for it in service(name)["env"]}
    (settings,) = (it["data"] for it in of_kind("ConfigMap") if it["metadata"]["name"] == "settings")
    known = given | (settings if "envFrom" in service(name) else {})
    compose = COMPOSE[SAME[name]]["environment"]
    files = {it: path for it, path in compose.items() if it.endswith("_FILE")}
    assert {it: path for it, path in given.items() if it.endswith("_FILE")} == files
    for variable, value in compose.items():
        default = value.partition(":-")[2].removesuffix("}") if value.startswith("${") else value
        if variable in known and variable != "MIGRATION_SERVICE_CONSOLE":
            assert known[variable] == default or variable == "MIGRATION_SERVICE_ALLOWED_HOSTS"
        else:  # Nothing is lost if the pod does not say it: it is what the service assumes.
            assert default in {"", "INFO", "off"} or variable.endswith("_DAYS"), variable
    (secrets,) = (it["secret"]["items"] for it in PODS[name]["volumes"] if it["name"] == "secrets")
    assert (
        {it["path"] for it in secrets} == {it["key"] for it in secrets} == set(COMPOSE[SAME[name]]["secrets"])
    )


def test_only_the_console_has_a_console() -> None:
    said = {name: {it["name"]: it["value"] for it in service(name)["env"]} for name in SAME}
    consoles = {name: given.get("MIGRATION_SERVICE_CONSOLE") for name, given in said.items()}
    assert {name: value for name, value in consoles.items() if value} == {"web": "off", "console": "on"}


@pod
def test_a_container_is_restricted_and_runs_as_the_user_of_the_image(name: str) -> None:
    (user,) = re.findall(r"useradd --system --uid (\d+) --gid migration", (ROOT / "Dockerfile").read_text())
    own = PODS[name]["securityContext"]
    assert {own["runAsUser"], own["runAsGroup"], own["fsGroup"]} == {int(user)}
    assert own["runAsNonRoot"] is True
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    assert PODS[name]["automountServiceAccountToken"] is False
    for container in [*PODS[name].get("initContainers", ()), *PODS[name]["containers"]]:
        restricted = container["securityContext"].items()
        assert {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}.items() <= restricted
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


@pod
def test_a_probe_asks_what_the_health_check_of_the_compose_file_asks(name: str) -> None:
    health = " ".join(COMPOSE[SAME[name]].get("healthcheck", {}).get("test", ()))
    probes = {kind: probe for kind, probe in service(name).items() if kind.endswith("Probe")}
    if name == "revisions":
        assert not health
        assert not probes
    elif SAME[name] == "web":
        paths = {kind: probe["httpGet"]["path"] for kind, probe in probes.items()}
        # A pod that has lost its database holds requests, as the others do, and is not started again.
        live = "/health/live"
        assert paths == {"startupProbe": live, "readinessProbe": "/health/pod", "livenessProbe": live}
        assert "/health/ready" in health
    else:
        commands = {kind: shlex.join(probe["exec"]["command"]) for kind, probe in probes.items()}
        same = shlex.join(["sh", "-c", health.removeprefix("CMD-SHELL ").replace("$$", "$")])
        assert commands == {"startupProbe": same, "livenessProbe": same}


@pod
def test_a_pod_has_as_long_to_end_as_its_container_in_the_compose_file(name: str) -> None:
    grace = PODS[name].get("terminationGracePeriodSeconds")
    if said := COMPOSE[SAME[name]].get("stop_grace_period"):
        assert f"{grace}s" == said


def test_each_queue_has_a_worker() -> None:
    commands = [shlex.join(service(name)["command"]) for name in SAME]
    assert sorted(queue for command in commands for queue in options(command, "queues")) == sorted(QUEUES)


def test_the_settings_of_the_manifests_are_valid() -> None:
    (settings,) = (it["data"] for it in of_kind("ConfigMap") if it["metadata"]["name"] == "settings")
    needed = {
        "DATABASE_URL": "postgresql://u:p@127.0.0.1/db",
        "REDIS_URL": "redis://127.0.0.1/0",
        "MIGRATION_SERVICE_SECRET_KEY": "x" * 32,
    }
    assert Settings.from_env(needed | settings).log_format == "json"


@pod
def test_a_pod_reaches_what_its_container_reaches_in_the_compose_file(name: str) -> None:
    ports = {
        rule["port"]
        for policy in of_kind("NetworkPolicy")
        if selects(policy["spec"]["podSelector"], name)
        for egress in policy["spec"].get("egress", ())
        for rule in egress["ports"]
    }
    networks = set(COMPOSE[SAME[name]]["networks"])
    assert {"database": 5432 in ports, "broker": 6379 in ports} == {
        network: network in networks for network in ("database", "broker")
    }
    assert 53 in ports
    assert (443 in ports) == (
        name in {*("web", "console", "worker-vendors", "worker-deliveries", "worker-maintenance")}
    )


def test_only_web_servers_are_reached_from_outside() -> None:
    reached = {
        name
        for policy in of_kind("NetworkPolicy")
        for name in SAME
        if selects(policy["spec"]["podSelector"], name) and policy["spec"].get("ingress")
    }
    assert reached == {"web"}
    (closed,) = (it for it in of_kind("NetworkPolicy") if it["metadata"]["name"] == "names-only")
    assert closed["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert all(selects(closed["spec"]["podSelector"], name) for name in SAME)


def test_what_names_pods_or_files_names_those_that_exist() -> None:
    for it in (*of_kind("Service"), *of_kind("PodDisruptionBudget")):
        selector = it["spec"]["selector"]
        wanted = selector.get("matchLabels", selector)
        names = [name for name in PODS if wanted.items() <= labels(name).items()]
        assert names == [it["metadata"]["name"]]
    for it in of_kind("HorizontalPodAutoscaler"):
        assert it["spec"]["scaleTargetRef"]["name"] == it["metadata"]["name"]
        (scaled,) = (
            one for one in of_kind("Deployment") if one["metadata"]["name"] == it["metadata"]["name"]
        )
        assert "replicas" not in scaled["spec"]  # each `kubectl apply` would set it
    generated = {it["metadata"]["name"] for it in of_kind("ConfigMap")}
    for own in PODS.values():
        volumes = {it["name"]: it for it in own["volumes"]}
        assert {it["configMap"]["name"] for it in volumes.values() if "configMap" in it} <= generated
        for container in [*own.get("initContainers", ()), *own["containers"]]:
            assert {it["name"] for it in container["volumeMounts"]} <= volumes.keys()


def test_what_one_node_has_starts_elsewhere_soon_after_it_is_lost() -> None:
    for name in ("beat", "valkey"):
        seconds = {it["key"]: it["tolerationSeconds"] for it in PODS[name]["tolerations"]}
        assert seconds == {f"node.kubernetes.io/{it}": 30 for it in ("not-ready", "unreachable")}
    assert not [it for it in MANIFESTS if "volumeClaimTemplates" in it.get("spec", {})]


def test_nginx_asks_the_web_server_of_its_pod() -> None:
    (proxy,) = PODS["web"]["initContainers"]
    assert proxy["restartPolicy"] == "Always"
    (change,) = re.findall(r"sed '(s\|.*?\|)'", proxy["command"][-1])
    (conf,) = (it["data"]["nginx.conf"] for it in of_kind("ConfigMap") if it["metadata"]["name"] == "nginx")
    assert conf == (ROOT / "deployment/nginx/nginx.conf").read_text()
    old, new = change.split("|")[1:3]
    assert conf.count(old) == 1
    port = {it["name"]: it["containerPort"] for it in service("web")["ports"]}["http"]
    assert new == f"set $web 127.0.0.1:{port};"
    assert f"-g '{COMPOSE['proxy']['command'][2]}'" in proxy["command"][-1]


def test_valkey_and_postgresql_are_told_what_the_compose_file_tells_them() -> None:
    def plain(words: list[str]) -> str:
        return re.sub(r"\$\{\w+:-(.*?)\}", r"\1", words[-1].replace("$$", "$"))

    valkey = service("valkey")
    assert valkey["command"][-1] == plain(COMPOSE["valkey"]["command"])
    assert valkey["livenessProbe"]["exec"]["command"][-1] == plain(COMPOSE["valkey"]["healthcheck"]["test"])
    own = EXAMPLE_MANIFESTS[0]["spec"]["postgresql"]["parameters"]
    said = dict(word.removeprefix("-c").split("=") for word in COMPOSE["postgres"]["command"][1:])
    sizes = {"shared_buffers", "max_connections", "max_wal_size"}
    assert {name: own[name] for name in said if name not in sizes} == {
        name: value for name, value in said.items() if name not in sizes
    }
    assert set(own) == set(said)


def most_pods(name: str) -> int:
    """Return how many pods there are at most, with the one that a roll-out adds."""
    for it in of_kind("HorizontalPodAutoscaler"):
        if it["metadata"]["name"] == name:
            return int(it["spec"]["maxReplicas"]) + 1
    (found,) = (it for it in of_kind("Deployment") if it["metadata"]["name"] == name)
    return int(found["spec"].get("replicas", 1)) + 1


def test_the_most_pods_that_there_can_be_have_the_connections_and_the_chunks_that_they_need() -> None:
    # As docs/operators/scaling.md counts: a web server has two processes.
    web = 2 * 21 * (most_pods("web") + most_pods("console"))
    workers = {
        name: most_pods(name) * int(options(shlex.join(service(name)["command"]), "concurrency")[0])
        for name in SAME
        if name.startswith("worker")
    }
    parameters = EXAMPLE_MANIFESTS[0]["spec"]["postgresql"]["parameters"]
    assert web + 2 * sum(workers.values()) + 20 <= int(parameters["max_connections"])
    (settings,) = (it["data"] for it in of_kind("ConfigMap") if it["metadata"]["name"] == "settings")
    concurrency = int(options(shlex.join(service("worker-batch")["command"]), "concurrency")[0])
    in_flight = int(settings["MIGRATION_SERVICE_BATCH_CHUNKS_IN_FLIGHT"])
    assert in_flight >= 2 * concurrency * (most_pods("worker-batch") - 1)


@pytest.fixture
def session(embedded_servers: EmbeddedServers) -> Iterator[Session]:
    """A transaction of the superuser, which is rolled back."""

    def connect() -> psycopg.Connection:
        connection = embedded_servers.postgres.connect_as_superuser(DATABASE)
        connection.autocommit = False
        return connection

    engine = create_engine("postgresql+psycopg://", creator=connect)
    with Session(engine) as session:
        yield session
    engine.dispose()


def test_keda_counts_the_work_of_each_queue_and_its_role_sees_nothing_else(
    session: Session, customer: Customer
) -> None:
    queries = {
        it["metadata"]["name"]: text(it["spec"]["triggers"][0]["metadata"]["query"])
        for it in EXAMPLE_MANIFESTS
        if it["kind"] == "ScaledObject"
    }
    assert f"state = '{ImportState.IN_PROGRESS}'" in str(queries["worker-interactive"])
    before = {name: session.scalar(query) for name, query in queries.items()}
    running = make_batch(session, customer)
    for first, state in ((1, ChunkState.PENDING), (11, ChunkState.DISPATCHED), (21, ChunkState.DONE)):
        add_chunk(session, running, first, first + 9, state=state)
    paused = make_batch(session, customer, state=BatchState.PAUSED)
    add_chunk(session, paused)
    vendors = make_batch(session, customer, kind=BatchKind.PAYMENT_INSTRUCTIONS)
    add_chunk(session, vendors)
    session.execute(text("CREATE ROLE migration_scaler"))
    (grants,) = re.findall(r"```sql\n(.*?)```", EXAMPLES, re.DOTALL)
    session.execute(text(grants))
    session.execute(text("SET LOCAL ROLE migration_scaler"))
    after = {name: session.scalar(query) for name, query in queries.items()}
    assert after == before | {"worker-batch": before["worker-batch"] + 2}
    seen = session.scalars(
        text(
            "SELECT table_name || '.' || column_name FROM information_schema.column_privileges "
            "WHERE grantee = 'migration_scaler'"
        )
    )
    assert set(seen) == {
        "account_import_process.state",
        *(f"batch.{name}" for name in ("id", "kind", "state", "finished_at")),
        *(f"batch_chunk.{name}" for name in ("batch_id", "state")),
    }

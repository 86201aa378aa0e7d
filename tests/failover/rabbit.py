"""Three RabbitMQ nodes with quorum queues."""

import base64
import os
from pathlib import Path
from typing import Any

import requests

from failover.cluster import SECRET
from failover.namespaces import Host, Network
from support.servers import wait_until

_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_MANAGEMENT = 15672
_USER = "drill"


class Rabbit:
    """The broker of the queues."""

    def __init__(self, network: Network) -> None:
        self.hosts = [network.add(f"rabbit{number}") for number in (1, 2, 3)]
        for host in self.hosts:
            self.start(host)
        wait_until(self.is_whole, "three nodes of RabbitMQ", 180)

    @property
    def url(self) -> str:
        """Return the addresses for the service."""
        return ";".join(f"amqp://{_USER}:{SECRET}@{host.address}:5672//" for host in self.hosts)

    def start(self, host: Host) -> None:
        """Start a node, for the first time or again."""
        nodes = "\n".join(
            f"cluster_formation.classic_config.nodes.{number} = rabbit@{it.address}"
            for number, it in enumerate(self.hosts, 1)
        )
        (host.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {host.address}:5672\nmanagement.tcp.ip = {host.address}\n"
            f"management.tcp.port = {_MANAGEMENT}\ndefault_user = {_USER}\ndefault_pass = {SECRET}\n"
            "cluster_formation.peer_discovery_backend = classic_config\n"
            # A partitioned minority stops; quorum queues need a majority anyway.
            f"cluster_partition_handling = pause_minority\nnet_ticktime = 10\nlog.console = true\n{nodes}\n"
        )
        (host.folder / "enabled").write_text("[rabbitmq_management].\n")
        cookie = host.folder / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(base64.b16encode(SECRET.encode() * 4).decode())
            cookie.chmod(0o400)
        host.run(
            str(_PROGRAM),
            environment={
                "PATH": f"{os.defpath}:/usr/lib/rabbitmq/bin",
                "HOME": str(host.folder),
                "LANG": "C.UTF-8",
                "RABBITMQ_USE_LONGNAME": "true",
                "RABBITMQ_NODENAME": f"rabbit@{host.address}",
                "RABBITMQ_CONFIG_FILE": str(host.folder / "rabbitmq"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(host.folder / "enabled"),
                "RABBITMQ_MNESIA_BASE": str(host.folder / "mnesia"),
                "RABBITMQ_LOG_BASE": str(host.folder / "log"),
                "RABBITMQ_LOGS": "-",
                # Two processors for three nodes and everything else.
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
            },
        )

    def nodes(self) -> dict[str, bool]:
        """Return whether each node runs, as the first that answers knows."""
        for host in self.hosts:
            try:
                answer = self._ask(host, "nodes")
            except requests.RequestException:
                continue
            return {it["name"].partition("@")[2]: bool(it["running"]) for it in answer}
        return {}

    def is_whole(self) -> bool:
        """Return True if all three nodes run as one cluster."""
        return sum(self.nodes().values()) == len(self.hosts)

    def queues(self) -> list[dict[str, Any]]:
        """Return the service's queues, with their types and leaders."""
        found = self._ask(self.hosts[0], "queues")
        return [it for it in found if "celery" not in str(it["name"])]

    def _ask(self, host: Host, path: str) -> list[dict[str, Any]]:
        address = f"http://{host.address}:{_MANAGEMENT}/api/{path}"
        answer = requests.get(address, auth=(_USER, SECRET), timeout=2)
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()
        return found

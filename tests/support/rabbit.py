"""A RabbitMQ on a free port, with a user of its own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import amqp
import pytest

from migration_service_local.servers.ports import LOOPBACK
from support.servers import ending_with_us, temporary_folder, wait_until

_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
USER, PASSWORD = "guest", "guest"  # may only come from this machine

needs_rabbitmq = pytest.mark.skipif(not _PROGRAM.exists(), reason="RabbitMQ is not installed")


@contextmanager
def running_rabbitmq(port: int, distribution_port: int) -> Iterator[str]:
    """Run a RabbitMQ. Yield its host and port."""
    folder = temporary_folder()
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = {LOOPBACK}:{port}\nlog.console = true\n")
    (folder / "enabled").write_text("[].\n")
    environment = {
        "PATH": f"{os.defpath}:/usr/lib/rabbitmq/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "RABBITMQ_NODENAME": f"tests{port}@localhost",
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        "ERL_EPMD_ADDRESS": LOOPBACK,
    }
    process = subprocess.Popen(
        ending_with_us(str(_PROGRAM)),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def answers() -> bool:
        assert process.poll() is None
        try:
            open_rabbitmq(f"{LOOPBACK}:{port}").close()
        except OSError:
            return False
        return True

    try:
        wait_until(answers, "RabbitMQ answers", 90)
        yield f"{LOOPBACK}:{port}"
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def open_rabbitmq(place: str) -> "amqp.Connection":
    """Return an open connection."""
    connection = amqp.Connection(host=place, userid=USER, password=PASSWORD)
    connection.connect()
    return connection

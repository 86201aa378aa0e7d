"""A standby of a PostgreSQL of the tests, and a switch-over to it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from migration_service_local.servers.ports import random_free_port
from migration_service_local.servers.process import Child, stop_children
from support.servers import EmbeddedServers, wait_until


class Standby:
    """A running standby, which replays what its primary writes."""

    def __init__(self, primary: EmbeddedServers, port: int, child: Child) -> None:
        self.primary, self.port, self.child = primary, port, child

    def address(self, of: str) -> str:
        """Return an address of the primary with the standby added. libpq chooses the one that writes."""
        name = f"127.0.0.1:{self.primary.postgres.port}"
        assert name in of
        return f"{of.replace(name, f'{name},127.0.0.1:{self.port}')}?target_session_attrs=read-write"

    def connect(self) -> psycopg.Connection:
        """Connect to the standby as the superuser."""
        url = make_url(self.primary.postgres.url).set(
            username="postgres", password=self.primary.home.secret("postgres_password"), port=self.port
        )
        return psycopg.connect(url.render_as_string(hide_password=False), autocommit=True, connect_timeout=5)

    def switch_over(self) -> None:
        """Stop the primary, which waits until the standby has everything, and promote the standby."""
        primary = self.primary.children.pop("postgres").process
        primary.send_signal(signal.SIGINT)
        primary.wait()
        with self.connect() as connection:
            connection.execute("SELECT pg_promote()")


@contextmanager
def standby_of(primary: EmbeddedServers) -> Iterator[Standby]:
    """Start a standby of this primary."""
    account, program = primary.home.account, primary.postgres.program()
    folder, port = primary.home.server_folder("standby") / "data", random_free_port()
    password = primary.home.secret("postgres_password")
    source = f"postgresql://postgres:{password}@127.0.0.1:{primary.postgres.port}/postgres"
    copied = account.run(
        [
            str(Path(program.arguments[0]).with_name("pg_basebackup")),
            *("-D", str(folder), "--write-recovery-conf", "--checkpoint=fast", "--no-sync", "-d", source),
        ],
        environment={"LC_ALL": "C"},
    )
    assert copied.returncode == 0, copied.stderr
    arguments = [
        {str(primary.postgres.data): str(folder), f"port={primary.postgres.port}": f"port={port}"}.get(it, it)
        for it in program.arguments
    ]
    own = replace(program, name="standby", arguments=arguments, folder=folder, before_start=lambda: None)
    with primary.log.open("ab") as log:
        standby = Standby(primary, port, Child(own, log))
    try:
        with primary.connect_as_superuser() as admin:
            streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
            wait_until(lambda: admin.execute(streams).fetchone() == (1,), "the standby follows")
        yield standby
    finally:
        stop_children([standby.child])

"""`migration-service up`."""

from pathlib import Path
from typing import Any

import click

from migration_service.config import home_folder
from migration_service_local.console import Output
from migration_service_local.errors import StartError
from migration_service_local.up.run import DEFAULT_FLOWER_PORT, DEFAULT_WEB_PORT, UpOptions, run_up

_PORT = click.IntRange(1, 65535)
_AT_LEAST_ONE = click.IntRange(min=1)


@click.command()
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="Number of sample accounts to migrate at the first start. 0 for none.",
)
@click.option(
    "--port",
    "web_port",
    type=_PORT,
    help=f"Port of the interface. By default {DEFAULT_WEB_PORT}, or the next one that is free.",
)
@click.option(
    "--flower-port",
    type=_PORT,
    help=f"Port of Flower. By default {DEFAULT_FLOWER_PORT}, or the next one that is free.",
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    default=home_folder,
    show_default="the system's data folder",
    help="Folder for the servers' data (MIGRATION_SERVICE_HOME). Each running service needs its own.",
)
@click.option(
    "--database-url",
    envvar="DATABASE_URL",
    show_envvar=True,
    help="A PostgreSQL to use instead of the embedded one.",
)
@click.option(
    "--redis-url",
    envvar="REDIS_URL",
    show_envvar=True,
    help="A Redis or Valkey to use instead of the embedded one.",
)
@click.option(
    "--secret-key",
    envvar="MIGRATION_SERVICE_SECRET_KEY",
    show_envvar=True,
    help="The key that signs tokens. By default one is generated at the first start.",
)
@click.option("--web-workers", type=_AT_LEAST_ONE, default=2, show_default=True, help="Web server processes.")
@click.option(
    "--web-threads",
    type=_AT_LEAST_ONE,
    default=320,
    show_default=True,
    help="Threads of each web server process.",
)
@click.option(
    "--interactive-workers",
    type=_AT_LEAST_ONE,
    default=2,
    show_default=True,
    help="Worker processes for requests that wait.",
)
@click.option(
    "--batch-workers",
    type=_AT_LEAST_ONE,
    default=2,
    show_default=True,
    help="Worker processes for batches and everything else in the background.",
)
def up(**options: Any) -> None:
    """Run the whole service on this machine, with nothing installed.

    Starts PostgreSQL and Valkey (both come with the Python packages), brings the tables up to date, and runs
    the web server, two workers, beat and Flower. Restarts a program that dies. The first start migrates a
    sample book of accounts through the REST interface. Then it prints the addresses and serves until Ctrl-C
    or SIGTERM. Data, passwords and keys stay in the home folder. The next start uses them again, and all
    other commands find the running service there.
    """
    try:
        run_up(UpOptions(**options), Output())
    except StartError as error:
        raise click.ClickException(str(error)) from error

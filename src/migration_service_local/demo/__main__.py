"""The parts of `up` that need the service's own code, whose memory ends with these processes.

python -m migration_service_local.demo prepare        updates the tables, and makes the first operator
python -m migration_service_local.demo migrate COUNT  migrates the sample book, and prints the addresses
python -m migration_service_local.demo leave          removes the sandbox vendor
"""

import os
import signal
import sys
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from migration_service.config import home_folder
from migration_service.db import revisions
from migration_service.db.engine import parse_database_url
from migration_service_local.console import Output
from migration_service_local.demo.first_operator import make_first_operator
from migration_service_local.demo.sample import SampleMigration, take_down_sandbox_vendor
from migration_service_local.servers.home import Home


def main(step: str, count: str = "0") -> None:
    """Do a step for the service of the home folder, which `up` has locked."""
    home = Home(home_folder(), is_ours=True)
    settings = home.read("settings.json")
    database_url = settings["DATABASE_URL"]
    if step == "prepare":
        owner_url = settings["MIGRATION_SERVICE_OWNER_DATABASE_URL"] or database_url
        try:
            role = parse_database_url(database_url).username
            revisions.upgrade(owner_url, runtime_role=role, pooler=True)
        except revisions.CannotUpgradeError as error:
            sys.exit(str(error))
        make_first_operator(home, database_url)
    elif step == "migrate":
        output = Output()

        def leave(*_: object) -> None:
            output.console.show_cursor()
            os._exit(0)  # what is under way may be repeated

        signal.signal(signal.SIGTERM, leave)
        SampleMigration(home, output).run(int(count))
    else:
        with suppress(SQLAlchemyError):
            take_down_sandbox_vendor(database_url)


if __name__ == "__main__":
    main(*sys.argv[1:])

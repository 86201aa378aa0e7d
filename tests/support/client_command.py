"""`migration-client` as a process, with the address and the key of a service in its environment."""

import os
import resource
import subprocess
import sys
from pathlib import Path

from documentation.pages import ROOT
from drill.scene import Service

#: Debian's package libfaketime. Without it, a clock stays as it is.
_FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


def environment_of(service: Service, folder: Path) -> dict[str, str]:
    """Return the variables of the command. What it keeps between two commands is in the folder."""
    return os.environ | {
        "PYTHONPATH": str(ROOT / "clients/python/src"),
        "HOME": str(folder),
        "MIGRATION_CLIENT_URL": service.address.url,
        "MIGRATION_CLIENT_KEY": service.address.api_key,
    }


def start_command(
    service: Service, folder: Path, *arguments: str, clock: str = "", room: int | None = None
) -> "subprocess.Popen[str]":
    """Start the command in the folder.

    `clock`: how its clock differs, such as `-2h`. `room`: the size that a file may have, as on a full disk.
    """
    environment = environment_of(service, folder)
    if clock and _FAKETIME:
        environment |= {"LD_PRELOAD": str(_FAKETIME[0]), "FAKETIME": clock}
    if room is not None:
        # Python would leave the byte code of the client cut off, and no other test could import it.
        environment |= {"PYTHONDONTWRITEBYTECODE": "1"}

    def limit() -> None:
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    return subprocess.Popen(
        [sys.executable, "-m", "migration_service_client", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=limit,  # noqa: PLW1509  (no other thread of the tests holds a lock that it needs)
    )

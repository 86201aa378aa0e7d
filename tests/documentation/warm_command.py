"""Our two commands, which have already loaded what they import, for the shell blocks of pages.

Importing takes two thirds of a second of processor time, and most commands of a page need a tenth of one
otherwise. So a process loads every command once. The command of the shell passes it the
arguments, the environment, the folder and the standard streams, and a fork runs the command with them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from migration_service.cli import main
from migration_service.loading import begin_loading, end_loading
from migration_service_client.command import main as client_main

_MAINS: dict[str, click.Group] = {"migration-service": main, "migration-client": client_main}

#: What the shell starts. It imports little, and nothing of the environment's packages.
_CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    status = server.recv(1)
sys.exit(status[0] if status else 70)
"""


@contextmanager
def warm_command(folder: Path) -> Iterator[None]:
    """Put both commands into `folder`. They work within the `with` statement."""
    address = str(folder / "socket")
    for name in _MAINS:
        command = folder / name
        command.write_text(_CLIENT.format(python=sys.executable, address=address))
        command.chmod(0o755)
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    server = subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.PIPE, env=path)
    try:
        assert server.stdout
        assert server.stdout.readline() == b"ready\n"
        yield
    finally:
        server.kill()
        server.communicate()


def _serve(address: str) -> None:
    begin_loading()
    for name, group in _MAINS.items():
        context = group.make_context(name, ["--help"], resilient_parsing=True)
        for command in group.list_commands(context):
            group.get_command(context, command)
    end_loading()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)  # noqa: T201
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
        while True:
            client, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _run(client)
            client.close()


def _run(client: socket.socket) -> None:
    """Run the command that `client` asks for, pass back its exit status, and end this process."""
    size, streams, _, _ = socket.recv_fds(client, 4, 3)
    with client.makefile("rb") as requests:
        arguments, folder, environment = json.loads(requests.read(int.from_bytes(size)))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Python knows of the old ones whether they are files.
    sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w") for number in (1, 2))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv = arguments
    status = _status()
    client.sendall(bytes([status]))
    os._exit(status)


def _status() -> int:
    """Run the command of `sys.argv`, and return its exit status, as the interpreter does."""
    try:
        _MAINS[Path(sys.argv[0]).name]()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    _serve(sys.argv[1])

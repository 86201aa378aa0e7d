"""Starts programs as forks of a process that has loaded their modules already, the template.

To load Celery and the tasks takes a second of processor time and a hundred megabytes, and `up` has six such
programs. A fork takes a tenth of the time, and shares the memory. It then is as if it had been started by
itself: it is a child of ours, has its own session, folder and environment, and `ps` shows its command line.
"""

import ctypes
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from migration_service.loading import begin_loading, end_loading
from migration_service_local.servers.launch import leave_processors, tie_to

_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
_SECONDS_TO_LOAD = 60.0
_LONGEST_REQUEST = 1_000_000
#: How long a command line may be. The memory for it is that of the template's own arguments.
_LONGEST_COMMAND_LINE = 1_000


class ForkedProcess:
    """A child process that we have not started ourselves. It has what is used here of `subprocess.Popen`."""

    def __init__(self, pid: int, output: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = output
        #: Its exit status, or the negative number of the signal that ended it, as soon as `poll` has seen it.
        self.returncode: int | Any = None

    def poll(self) -> int | None:
        """Return how it ended, or None if it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        """Wait until it has ended, and return how. Raise TimeoutError if it runs for longer."""
        deadline = time.monotonic() + timeout
        while (ending := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"Process {self.pid} still runs after {timeout:.0f} seconds.")
            time.sleep(0.02)
        return ending

    def send_signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM, if it runs."""
        self.send_signal(signal.SIGTERM)


class Template:
    """A process that loads modules and then forks programs. `module` calls `serve`."""

    def __init__(self, module: str, environment: Mapping[str, str], folder: Path) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(_SECONDS_TO_LOAD)
        self._loaded = False
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno()), "-" * _LONGEST_COMMAND_LINE],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )

    def fork(
        self,
        arguments: Sequence[str],
        *,
        name: str,
        folder: Path,
        environment: Mapping[str, str],
        niceness: int,
        death_signal: int,
    ) -> ForkedProcess | None:
        """Return a new process that runs `python -m MODULE ...`, or None if the template has ended.

        Linux lets it become our child when the process between us and it ends, if we adopt just then.
        """
        request = {
            "arguments": arguments,
            "name": name,
            "folder": str(folder),
            "environment": dict(environment),
            "niceness": niceness,
            "death_signal": int(death_signal),
            "parent": os.getpid(),
        }
        reading, writing = os.pipe()
        output = os.fdopen(reading, "rb")
        try:
            # When it is sent, the template has loaded everything. So we do not adopt for longer than needed.
            self._loaded = self._loaded or bool(self._requests.recv(16))
            _adopt(True)
            socket.send_fds(self._requests, [json.dumps(request).encode()], [writing])
            return ForkedProcess(int(self._requests.recv(16)), output)
        except (OSError, ValueError):
            output.close()
            self.close()
            return None
        finally:
            _adopt(False)
            os.close(writing)

    def close(self) -> None:
        """End the template. Its forks go on."""
        self._requests.close()
        self._process.kill()
        self._process.wait()


def serve(descriptor: int, modules: Iterable[str]) -> None:
    """Load modules, and fork the programs that are asked for. Return when nobody is left to ask.

    In each fork, run the program until its end.
    """
    begin_loading()
    for module in modules:
        import_module(module)
    end_loading()
    requests = socket.socket(fileno=descriptor)
    with suppress(BrokenPipeError):
        requests.send(b"loaded")
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 1)
        if not message:
            return
        if os.fork() == 0:
            if os.fork() != 0:
                os._exit(0)
            request = json.loads(message)
            _become(request, descriptors[0])
            requests.send(str(os.getpid()).encode())
            requests.close()
            return _run(request["arguments"])
        os.close(descriptors[0])
        os.wait()


def _become(request: Mapping[str, Any], output: int) -> None:
    """Be what a program is that `Child` starts."""
    os.setsid()
    while os.getppid() != request["parent"]:
        time.sleep(0.001)
    if request["niceness"]:
        leave_processors(request["niceness"])
    tie_to(request["parent"], request["death_signal"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, request["name"].encode(), 0, 0, 0)
    _show_command_line(request["arguments"])


def _run(arguments: Sequence[str]) -> None:
    """Run `python -m MODULE ...`."""
    _, _, module, *others = arguments
    sys.argv = [module, *others]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _show_command_line(arguments: Sequence[str]) -> None:
    """Write these arguments where the system reads our command line."""
    begin, end = (int(field) for field in _stat_fields()[47:49])
    line = b"\0".join(os.fsencode(argument) for argument in arguments)
    ctypes.memmove(begin, line[: end - begin - 1].ljust(end - begin, b"\0"), end - begin)


def _stat_fields() -> list[str]:
    """Return the fields of /proc/self/stat. The second is our name, which may have spaces."""
    before, _, after = Path("/proc/self/stat").read_text().rpartition(")")
    return [*before.split(" (", 1), *after.split()]


def _adopt(adopting: bool) -> None:
    """Become the parent of the children of our children that end meanwhile, or no longer."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopting), 0, 0, 0)

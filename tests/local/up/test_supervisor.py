"""The supervisor with small programs: restarts, crash loops, and the order of stopping."""

import io
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from migration_service.tasks.names import QUEUES
from migration_service_local.console import Output, Terminal
from migration_service_local.errors import StartError
from migration_service_local.servers.home import Home
from migration_service_local.servers.orphans import find_processes, stop_orphans
from migration_service_local.servers.process import Child, Program
from migration_service_local.up import run
from migration_service_local.up.programs import Programs, Scale
from migration_service_local.up.run import StopRequestedError, Supervisor, pause_before_restart
from support.deployment_files import seconds_of_web, seconds_of_workers
from support.servers import processes_in, temporary_folder, wait_until

SERVE = "import time\nprint('serving', flush=True)\ntime.sleep(60)"
IGNORE_SIGTERM = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVE


class Screen:
    """The output of the supervisor."""

    def __init__(self) -> None:
        self._file = io.StringIO()
        self.output = Output(Terminal(file=self._file, highlight=False, soft_wrap=True, width=200))

    @property
    def text(self) -> str:
        return self._file.getvalue()


def program(folder: Path, name: str, code: str, stop: Sequence[tuple[signal.Signals, float]] = ()) -> Program:
    own = folder / name
    own.mkdir(exist_ok=True)
    return Program(
        name=name,
        arguments=[sys.executable, "-c", textwrap.dedent(code)],
        environment={},
        folder=own.resolve(),
        stop=stop or ((signal.SIGTERM, 10),),
    )


def signal_soon(number: signal.Signals, condition: Callable[[], object]) -> threading.Thread:
    """Send ourselves a signal as soon as the condition holds. The supervisor needs the main thread."""

    def send() -> None:
        wait_until(condition, "the moment for the signal")
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("deaths", "seconds"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (6, 16), (7, 30), (1000, 30)]
)
def test_the_pause_before_a_restart_grows_up_to_half_a_minute(deaths: int, seconds: float) -> None:
    assert pause_before_restart(deaths) == seconds


def test_lines_are_shown_behind_the_name_of_their_program(tmp_path: Path) -> None:
    screen = Screen()
    with Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "one", "print('hello [bold]')\n" + SERVE))
        supervisor.run(until=lambda: "hello" in screen.text)
    assert "one         | hello [bold]\n" in screen.text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_killed_is_started_again_at_once(tmp_path: Path, number: signal.Signals) -> None:
    screen = Screen()
    with Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "one", SERVE))
        supervisor.run(until=lambda: "serving" in screen.text)
        (first,) = processes_in(tmp_path)
        first.send_signal(number)
        supervisor.run(until=lambda: screen.text.count("serving") == 2)
    assert f"one was killed by {number.name}. It is restarted at once." in screen.text


def test_deaths_are_counted_anew_after_a_healthy_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_HEALTHY_SECONDS", 0)
    screen = Screen()
    with Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "one", "import sys\nsys.exit('soon')"))
        supervisor.run(until=lambda: screen.text.count("restarted") == 4)
    assert screen.text.count("one ended with exit status 1. It is restarted at once.") == 4


def test_a_crash_loop_is_shown_with_the_last_lines_and_keeps_the_start_from_succeeding(
    tmp_path: Path,
) -> None:
    screen = Screen()
    with pytest.raises(StartError, match="one does not start"), Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "one", "import sys\nsys.exit('no such table')"))
        supervisor.run_until_ready(lambda: False, "one")
    assert "one keeps dying: 3 times in a row" in screen.text
    alarm = screen.text.partition("keeps dying")[2]
    assert "It ended with exit status 1, and is restarted in 2 s. Its last lines:" in alarm
    assert "no such table" in alarm


def test_groups_are_stopped_in_the_opposite_order_each_at_the_same_time(tmp_path: Path) -> None:
    screen = Screen()
    with Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "database", SERVE))
        supervisor.start(program(tmp_path, "worker-1", SERVE), program(tmp_path, "worker-2", SERVE))
        supervisor.start(program(tmp_path, "web", SERVE))
        supervisor.run(until=lambda: screen.text.count("serving") == 4)
    stops = [line.partition("| stopping ")[2] for line in screen.text.splitlines() if "stopping" in line]
    assert stops == ["web", "worker-1, worker-2", "database"]
    assert processes_in(tmp_path) == []


def test_a_program_that_does_not_stop_in_its_time_is_killed(tmp_path: Path) -> None:
    screen = Screen()
    with Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "deaf", IGNORE_SIGTERM, stop=((signal.SIGTERM, 0.2),)))
        supervisor.run(until=lambda: "serving" in screen.text)
    assert processes_in(tmp_path) == []


def test_the_children_of_a_stopped_program_are_stopped(tmp_path: Path) -> None:
    screen = Screen()
    code = "import subprocess\nsubprocess.Popen(['sleep', '60'])\n" + SERVE
    with Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "parent", code))
        supervisor.run(until=lambda: "serving" in screen.text)
        assert len(processes_in(tmp_path)) == 2
    wait_until(lambda: processes_in(tmp_path) == [], "both gone")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_supervision_and_the_old_handlers_return(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    screen = Screen()
    with Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "one", SERVE))
        sender = signal_soon(number, lambda: "serving" in screen.text)
        supervisor.run()
        assert supervisor.stopping
    sender.join()
    assert signal.getsignal(number) is before
    assert processes_in(tmp_path) == []


def test_a_signal_during_the_start_ends_it(tmp_path: Path) -> None:
    screen = Screen()
    with pytest.raises(StopRequestedError), Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "one", SERVE))
        sender = signal_soon(signal.SIGTERM, lambda: "serving" in screen.text)
        supervisor.run_until_ready(lambda: False, "one")
    sender.join()
    assert processes_in(tmp_path) == []


def test_a_second_signal_kills_programs_that_are_still_running(tmp_path: Path) -> None:
    screen = Screen()
    with Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "deaf", IGNORE_SIGTERM, stop=((signal.SIGTERM, 60),)))
        first = signal_soon(signal.SIGINT, lambda: "serving" in screen.text)
        supervisor.run()
        second = signal_soon(signal.SIGINT, lambda: "stopping deaf" in screen.text)
    first.join()
    second.join()
    assert processes_in(tmp_path) == []


def test_a_second_signal_kills_no_server(tmp_path: Path) -> None:
    screen = Screen()
    slow = """
        import signal, time

        def end(*_):
            print("ending", flush=True)
            time.sleep(1)
            open("ended", "w").close()
            raise SystemExit

        signal.signal(signal.SIGTERM, end)
        print("serving", flush=True)
        time.sleep(60)
    """
    with Supervisor(screen.output) as supervisor:
        supervisor.start(program(tmp_path, "database", slow, stop=((signal.SIGTERM, 60),)), server=True)
        first = signal_soon(signal.SIGINT, lambda: "serving" in screen.text)
        supervisor.run()
        second = signal_soon(signal.SIGINT, lambda: "ending" in screen.text)
    first.join()
    second.join()
    assert (tmp_path / "database" / "ended").exists()


def test_programs_continue_if_the_reader_of_the_output_ends(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody_reads:
        output = Output(Terminal(file=nobody_reads))
        code = "print('x' * 100000)\nopen('done', 'w').close()\n" + SERVE
        with Supervisor(output) as supervisor:
            supervisor.start(program(tmp_path, "one", code))
            supervisor.run(until=(tmp_path / "one" / "done").exists)


@pytest.fixture
def programs() -> Iterator[Programs]:
    """The programs of `up`, none of which runs."""
    folder = temporary_folder()
    home = Home(folder / "home")
    yield Programs(home, Scale())
    home.close()
    shutil.rmtree(folder)


def test_each_queue_has_a_worker_and_a_program_has_longer_to_end_than_it_takes(programs: Programs) -> None:
    workers = programs.workers()
    queues = [worker.arguments[worker.arguments.index("-Q") + 1] for worker in workers]
    assert sorted(",".join(queues).split(",")) == sorted(QUEUES)
    for worker in workers:
        assert sum(seconds for _, seconds in worker.stop) > seconds_of_workers() + 5
    web = programs.web(8000)
    leaving = float(web.environment["MIGRATION_SERVICE_LEAVE_SECONDS"])
    assert sum(seconds for _, seconds in web.stop) >= seconds_of_web(leaving) + 5


def test_a_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    missing = Program(name="missing", arguments=["/does/not/exist"], environment={}, folder=tmp_path, stop=())
    child = Child(missing, subprocess.PIPE)
    printed, _ = child.process.communicate(timeout=60)
    assert printed == b"cannot run /does/not/exist: No such file or directory\n"
    assert child.has_ended()


_PARENT = """
import subprocess, sys, time
from pathlib import Path
from migration_service_local.servers.process import Child, Program
import signal
code = "import time; open('up', 'w').close(); time.sleep(60)"
Child(Program(name="child", arguments=[sys.executable, "-c", code], environment={},
              folder=Path(sys.argv[1]), stop=()), subprocess.DEVNULL)
time.sleep(60)
"""


def test_children_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, str(folder)])
    wait_until((folder / "up").exists, "the child's start")
    parent.kill()
    parent.wait()
    if sys.platform != "linux":
        stop_orphans(folder, Path(sys.executable).name)
    wait_until(lambda: processes_in(folder) == [], "the child's end", 5)


def test_what_a_test_starts_does_not_outlive_it(tmp_path: Path) -> None:
    code = "from support.servers import *; subprocess.run(ending_with_us('sleep', '60'), cwd=sys.argv[1])"
    of_tests = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    killed = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=of_tests)
    wait_until(lambda: find_processes(tmp_path.resolve(), "sleep"), "the start")
    killed.kill()
    killed.wait()
    wait_until(lambda: processes_in(tmp_path) == [], "the end of what it started")


def test_only_orphans_of_this_folder_and_program_are_found(tmp_path: Path) -> None:
    ours, other = (tmp_path / name for name in ("ours", "other"))
    running = []
    for folder in (ours, other):
        folder.mkdir()
        running.append(subprocess.Popen(["sleep", "60"], cwd=folder))
    running.append(subprocess.Popen(["tail", "-f", "/dev/null"], cwd=ours))
    wait_until(lambda: len(processes_in(tmp_path)) == 3, "all three")

    found = find_processes(ours.resolve(), "sleep")
    assert [process.pid for process in found] == [running[0].pid]
    reaper = threading.Thread(target=running[0].wait)
    reaper.start()
    assert stop_orphans(ours.resolve(), "sleep") == 1
    reaper.join()
    assert [process.poll() for process in running[1:]] == [None, None]
    for process in running[1:]:
        process.kill()
        process.wait()


def test_an_orphan_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migration_service_local.servers.orphans.SECONDS", 0.3)
    code = "import signal, time; signal.signal(2, signal.SIG_IGN); open('up', 'w').close(); time.sleep(60)"
    orphan = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    wait_until((tmp_path / "up").exists, "the start")
    assert stop_orphans(tmp_path.resolve(), Path(sys.executable).name) == 1
    assert orphan.wait() == -signal.SIGKILL


def test_a_zombie_is_not_an_orphan(tmp_path: Path) -> None:
    zombie = subprocess.Popen([sys.executable, "-c", "pass"], cwd=tmp_path)
    wait_until(lambda: psutil.Process(zombie.pid).status() == psutil.STATUS_ZOMBIE, "a zombie")
    assert find_processes(tmp_path.resolve(), Path(sys.executable).name) == []
    zombie.wait()

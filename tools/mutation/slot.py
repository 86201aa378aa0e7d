"""One place in which changes are tried: a copy of the project, with servers that its tests share.

The tests run in forked processes, each with one change. Third-party packages are imported before. A change of
the body of a function, or of a constant, is made in a process that has collected all tests (patches.py). For
any other, the tests are imported with the changed file.
"""

import gc
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from mutation.children import Ended, Outcome, Report, run_in_child
from mutation.patches import LiveModule, Patch, functions_by_file
from mutation.recording import Recorder, Recording, cached_functions

_OPTIONS = ("-q", "-s", "--assert=plain", "-p", "no:cacheprovider", "--randomly-dont-reorganize", "-n", "0")
_NEVER_COPIED = (".venv", ".git", "__pycache__", ".*_cache", ".hypothesis", ".make", "build")
#: A test of the interface, one of an account that exists, and one of a worker.
_WARM_UP = (
    "tests/api/imports/test_stage.py",
    "tests/api/accounts/test_notes.py",
    "tests/worker/processing/test_attempts.py",
)
#: Seconds that a test takes which was not recorded.
_UNKNOWN = 20.0
#: Tests of the whole service take too long for thousands of changes.
FOLDERS = ("tests/unit", "tests/worker", "tests/api")


def copy_project(root: Path, to: Path) -> None:
    """Copy what the tests need. Files keep their times, so that Python finds the compiled ones again."""
    shutil.copytree(root, to, ignore=shutil.ignore_patterns(*_NEVER_COPIED), symlinks=True)


class Slot:
    """A copy of the project with its servers. Use it in a `with` statement, in a process without threads."""

    def __init__(self, copy: Path, recording: Recording) -> None:
        self._copy = copy
        self._recording = recording
        self._log = copy.with_name(f"{copy.name}.log")
        self._warm: _Warm | None = None

    def __enter__(self) -> "Slot":
        os.chdir(self._copy)
        sys.path[:0] = [str(self._copy / name) for name in ("src", "tests", "tools")]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:3])
        for name in self._recording.known.imported:
            with suppress(ImportError):
                importlib.import_module(name)
        servers = importlib.import_module("servers")
        self._servers = servers.EmbeddedServers()
        self._servers.__enter__()
        self._in_child(lambda _: (self._servers.upgrade(), self._servers.remember()), lambda _: 120)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(f"{self._copy}{os.sep}"):
                del sys.modules[name]
        return self

    def __exit__(self, *_: object) -> None:
        if self._warm:
            self._warm.close()
        self._servers.__exit__(None, None, None)

    def record(self, files: Sequence[str]) -> None:
        """Record the lines of the tests of these files. Raise SystemExit if that fails."""

        def work(report: Report) -> None:
            plugins = [Recorder(self._recording), _Given(self._servers), _Telling(report)]
            status = pytest.main([*_OPTIONS, *files], plugins=plugins)
            if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
                report.end(Outcome.SURVIVED)

        ended = self._in_child(work, lambda _: 900)
        if ended.outcome != Outcome.SURVIVED:
            raise SystemExit(f"the tests could not be recorded ({ended.test}):\n{self.output()}")

    def patched(self, module: str, patch: Patch, tests: Sequence[str], *, anew: bool = False) -> Ended:
        """Return how these tests end with a patch of a module, or that a function cannot be replaced.

        With `anew`, the application and whatever else tests share is made anew, too.
        """
        if self._warm is None:
            files = sorted(self._recording.known.files)  # see _InTurn
            self._warm = _Warm(self._servers, self._log, self._seconds_for, files)
        return self._warm.run(module, patch, tests, anew)

    def imported(self, module: str, source: str, tests: Sequence[str]) -> Ended:
        """Return how these tests end if a module has this text."""
        file = self._copy / module
        before, times = file.read_bytes(), file.stat()

        def work(report: Report) -> None:
            _begin_child(self._servers, anew=True)
            plugins = [_Given(self._servers), _Telling(report, stop=True), _InTurn(tests)]
            status = pytest.main([*_OPTIONS, "-x", *sorted(tests)], plugins=plugins)
            report.end(Outcome.SURVIVED if status == pytest.ExitCode.OK else Outcome.KILLED)

        try:
            file.write_text(source)
            return self._in_child(work, self._seconds_for)
        finally:
            file.write_bytes(before)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def output(self) -> str:
        """Return the end of what the last tests printed."""
        return self._log.read_text(errors="replace")[-3_000:] if self._log.exists() else ""

    def _in_child(self, work: Callable[[Report], Any], seconds_for: Callable[[str], float]) -> Ended:
        ended = run_in_child(work, seconds_for, self._log)
        if ended.outcome != Outcome.SURVIVED:
            _settle(self._servers)
        return ended

    def _seconds_for(self, test: str) -> float:
        """Return how long a test may take, or what comes before the first one, on a busy machine."""
        return 20 + 5 * self._recording.known.seconds.get(test, _UNKNOWN) if test else 60


class _Given:
    """A plugin of pytest: the tests use servers that run already, and whose database has its tables."""

    def __init__(self, servers: Any) -> None:
        self._servers = servers

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Any:
        if fixturedef.argname not in ("embedded_servers", "migrated"):
            return None
        is_database = fixturedef.argname == "migrated"
        value = request.getfixturevalue("settings") if is_database else self._servers
        fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
        return value


class _InTurn:
    """A plugin of pytest that runs tests in the order in which they are named.

    They have to be collected in that of their files: pytest 9.1 loses what a conftest.py provides if it
    comes back to its folder (pytest-dev/pytest#14971).
    """

    def __init__(self, tests: Sequence[str]) -> None:
        self._turns = {test: turn for turn, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._turns.get(item.nodeid, 0))


class _Telling:
    """A plugin of pytest that reports each test that begins, and ends this process when one fails."""

    def __init__(self, report: Report, *, stop: bool = False) -> None:
        self._report = report
        self._stop = stop

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._report.begin(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._stop and report.failed:
            print(report.longreprtext, flush=True)
            self._report.end(Outcome.KILLED)


class _Warm:
    """A process that has collected the tests of these files, and forks one for each patch."""

    def __init__(
        self, servers: Any, log: Path, seconds_for: Callable[[str], float], files: Sequence[str]
    ) -> None:
        self._here, there = Pipe()
        self._child = os.fork()
        if not self._child:
            self._here.close()
            with log.with_suffix(".warm.log").open("wb") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            with suppress(BaseException):
                serving = _Serving(there, servers, log, seconds_for)
                pytest.main([*_OPTIONS, *files], plugins=[_Given(servers), serving])
            os._exit(0)
        there.close()

    def run(self, module: str, patch: Patch, tests: Sequence[str], anew: bool) -> Ended:
        self._here.send((module, patch, tests, anew))
        ended: Ended = self._here.recv()
        return ended

    def close(self) -> None:
        self._here.close()
        os.waitpid(self._child, 0)


class _Serving:
    """A plugin of pytest that runs tests when it is asked to, each time in a forked process with a patch."""

    def __init__(
        self, connection: Connection, servers: Any, log: Path, seconds_for: Callable[[str], float]
    ) -> None:
        self._connection = connection
        self._servers = servers
        self._log = log
        self._seconds_for = seconds_for
        self._live: dict[str, LiveModule] = {}
        self._cached: list[Any] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        _warm_up(session)
        self._cached = cached_functions()
        gc.freeze()
        with suppress(EOFError):
            while True:
                module, patch, tests, anew = self._connection.recv()
                live = self._live_module(module)
                work = partial(self._run, session, partial(live.apply, patch), tests, anew)
                ended = run_in_child(work, self._seconds_for, self._log)
                if ended.outcome != Outcome.SURVIVED:
                    _settle(self._servers)
                self._connection.send(ended)
        return True

    def _live_module(self, path: str) -> LiveModule:
        if path not in self._live:
            name = ".".join(Path(path).with_suffix("").parts[1:])
            module = importlib.import_module(name)  # no test may have done so yet, as with the console
            functions = functions_by_file()[str(module.__file__)]
            gc.freeze()
            self._live[path] = LiveModule(module, Path(path).read_text(), functions)
        return self._live[path]

    def _run(
        self,
        session: pytest.Session,
        change: Callable[[], None],
        tests: Sequence[str],
        anew: bool,
        report: Report,
    ) -> None:
        _begin_child(self._servers, anew=anew)
        if anew:
            session._setupstate.teardown_exact(None)
        for function in self._cached:
            function.cache_clear()
        session.config.pluginmanager.register(_Telling(report, stop=True))
        items = {item.nodeid: item for item in session.items}
        chosen = [items[test] for test in tests if test in items]
        change()
        for item, following in zip_longest(chosen, chosen[1:]):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        report.end(Outcome.SURVIVED)


def _warm_up(session: pytest.Session) -> None:
    """Run some tests, and keep the application and what else all tests share.

    To make it takes a process most of the time of its first test.
    """
    for file in _WARM_UP:
        item = next((it for it in session.items if it.nodeid.startswith(file)), None)
        if item:
            # What the session has in common with the next item stays.
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=session)
    for it in gc.get_objects():
        if isinstance(it, Engine):
            it.dispose()


#: Connections of the parent, which must neither be used nor closed here.
_of_the_parent: list[Any] = []


def _begin_child(servers: Any, *, anew: bool) -> None:
    """Let a forked process share nothing with its parent. It keeps no compiled file of a changed module.

    One that makes anew what tests share does not replace the rows that the parent keeps (`keeping`).
    """
    if anew:
        servers.kept_prefix = "kept_anew"
    _of_the_parent.append(servers._cleaner)
    servers._cleaner = None
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def _settle(servers: Any) -> None:
    """Remove what a test that was killed has left: its sessions, rows and keys."""
    with servers.connect_as_superuser() as admin:
        admin.execute(_END_SESSIONS)
    servers.empty()


_END_SESSIONS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""

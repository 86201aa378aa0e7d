"""Which test runs which line, and how long it takes. It is recorded again when a file of tests changes."""

import gc
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import _lru_cache_wrapper, cache, cached_property
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage, CoverageData

from mutation.uses import Line
from mutation.words import Words

#: What runs when modules are imported, and what runs once for all tests: neither belongs to one test.
_ON_IMPORT, _SHARED = "", "shared"
#: Plugins of pytest have to be imported by pytest.
_BY_PYTEST = ("_hypothesis", "hypothesis", "pytest", "_pytest", "xdist", "schemathesis", "anyio", "conftest")


@dataclass(slots=True)
class Known:
    """What is known of the tests, apart from the lines that they run."""

    #: The digest of each file of tests, and of each module, when it was recorded.
    files: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    #: How long each test takes.
    seconds: dict[str, float] = field(default_factory=dict)
    #: Tests that fail without a change.
    failed: list[str] = field(default_factory=list)
    #: Packages that the tests import, without the project's own.
    imported: list[str] = field(default_factory=list)


class Recording:
    """The recording in a folder."""

    def __init__(self, folder: Path, root: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._root = root
        self.lines = folder / "lines"
        self._file = folder / "tests.json"
        kept = json.loads(self._file.read_text()) if self._file.exists() else {}
        self.known = Known(**kept)
        self._contexts = cache(self._read_contexts)

    @cached_property
    def words(self) -> Words:
        """The words of the recorded tests."""
        return Words(self._root, self.known.files)

    def missing(self, root: Path, files: Iterable[Path]) -> list[str]:
        """Return the files of tests that are not recorded with their present text."""
        paths = (str(path.relative_to(root)) for path in files)
        return [path for path in paths if self.known.files.get(path) != digest(root / path)]

    def forget_all_but(self, files: Collection[str]) -> None:
        """Forget the tests of files that are not among these."""
        known = self.known
        known.files = {path: digest for path, digest in known.files.items() if path in files}
        known.seconds = {test: it for test, it in known.seconds.items() if _file_of(test) in files}
        known.failed = [test for test in known.failed if _file_of(test) in files]

    def save(self) -> None:
        """Keep what is known."""
        self._file.write_text(json.dumps(asdict(self.known), indent=1))

    def is_of(self, root: Path, module: str) -> bool:
        """Return True if the lines of a module are still those that were recorded."""
        return self.known.modules.get(module) == digest(root / module)

    def tests_of(self, lines: Iterable[Line]) -> set[str]:
        """Return the tests that run one of these lines."""
        return {
            test
            for module, line in lines
            for test in self._contexts(module).get(line, ())
            if test in self.known.seconds
        }

    def lines_by_test(self, lines: Iterable[Line]) -> dict[str, set[Line]]:
        """Return which of these lines each test runs."""
        found: dict[str, set[Line]] = defaultdict(set)
        for module, line in lines:
            for test in self._contexts(module).get(line, ()):
                found[test].add((module, line))
        return found

    def tests_of_module(self, module: str) -> set[str]:
        """Return the tests that run any line of a module."""
        return self.tests_of((module, line) for line in self._contexts(module))

    def runs_on_import(self, lines: Iterable[Line]) -> bool:
        """Return True if one of these lines runs when modules are imported."""
        return any(_ON_IMPORT in self._contexts(module).get(line, ()) for module, line in lines)

    def is_shared(self, lines: Iterable[Line]) -> bool:
        """Return True if one of these lines runs once for all tests."""
        return any(
            {_ON_IMPORT, _SHARED} & set(self._contexts(module).get(line, ())) for module, line in lines
        )

    def _read_contexts(self, module: str) -> dict[int, list[str]]:
        data = CoverageData(str(self.lines))
        data.read()
        return data.contexts_by_lineno(module)


class Recorder:
    """A plugin of pytest that records the lines of each test. Make it before the project is imported."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._context = _ON_IMPORT
        self._cached: list[_lru_cache_wrapper[Any]] = []
        self._coverage = Coverage(
            data_file=str(recording.lines), config_file=False, source_pkgs=["migration_service"]
        )
        self._coverage.set_option("run:relative_files", True)
        self._coverage.load()
        self._coverage.start()

    def pytest_collection_finish(self) -> None:
        # Otherwise the lines of such a function would belong to the first test that calls it only.
        self._cached = cached_functions()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, Any]:
        known = self._recording.known
        known.seconds[item.nodeid] = 0.0
        for function in self._cached:
            function.cache_clear()
        with self._in(item.nodeid):
            done = yield
        if nextitem is None or nextitem.path != item.path:
            known.files[_file_of(item.nodeid)] = digest(item.path)
            self._save()
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        with self._in(_SHARED):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known = self._recording.known
        known.seconds[report.nodeid] = round(known.seconds[report.nodeid] + report.duration, 3)
        if report.failed:
            known.failed.append(report.nodeid)

    def _save(self) -> None:
        """Keep what was recorded so far, in case that the rest is stopped."""
        self._coverage.save()
        names = {name for name in sys.modules if not name.startswith(_BY_PYTEST)}
        self._recording.known.imported = sorted(name for name in names if _is_installed(name))
        self._recording.save()

    @contextmanager
    def _in(self, context: str) -> Iterator[None]:
        before, self._context = self._context, context
        self._coverage.switch_context(context)
        try:
            yield
        finally:
            self._context = before
            self._coverage.switch_context(before or _SHARED)


def cached_functions() -> "list[_lru_cache_wrapper[Any]]":
    """Return the functions of the project that keep their results (`functools.cache`)."""
    gc.unfreeze()  # or it would find none
    return [
        it
        for it in gc.get_objects()
        if isinstance(it, _lru_cache_wrapper) and str(it.__module__).startswith("migration_service")
    ]


def digest(path: Path) -> str:
    """Return what identifies the text of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _is_installed(name: str) -> bool:
    return "site-packages" in str(getattr(sys.modules[name], "__file__", None))

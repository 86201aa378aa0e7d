"""Programs that are forked from a process that has loaded their modules."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from migration_service_local.servers.process import Child, Program, stop_children
from migration_service_local.servers.template import Template

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets processes adopt others")

_TEMPLATE = """
import sys
from migration_service_local.servers.template import serve
serve(int(sys.argv[1]), ["colorsys"])
"""
_SHOWS = """
import json, os, sys, time
print(json.dumps({
    "loaded": "colorsys" in sys.modules,
    "arguments": sys.argv[1:],
    "main": __name__,
    "folder": os.getcwd(),
    "environment": dict(os.environ),
    "niceness": os.nice(0),
    "session": os.getsid(0) == os.getpid(),
    "parent": os.getppid(),
    "stdin": os.readlink("/proc/self/fd/0"),
    "open": sorted(int(it) for it in os.listdir("/proc/self/fd"))[:-1],
}), flush=True)
print("wrong", file=sys.stderr, flush=True)
if sys.argv[1] == "sleep":
    time.sleep(600)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def template(tmp_path: Path) -> Iterator[Template]:
    (tmp_path / "template_of_test.py").write_text(_TEMPLATE)
    (tmp_path / "shows.py").write_text(_SHOWS)
    template = Template("template_of_test", os.environ | {"PYTHONPATH": str(tmp_path)}, tmp_path)
    yield template
    template.close()


def start(template: Template, folder: Path, *arguments: str) -> Child:
    program = Program(
        name="shows",
        arguments=[sys.executable, "-m", "shows", *arguments],
        environment={"PYTHONPATH": str(folder), "COLOUR": "grün"},
        folder=folder,
        stop=((signal.SIGTERM, 10),),
        niceness=3,
        template=template,
    )
    return Child(program, subprocess.PIPE)


def shown(child: Child) -> tuple[dict[str, Any], str]:
    """Return what the program shows of itself, and the line after that."""
    assert child.process.stdout is not None
    with child.process.stdout as output:
        return json.loads(output.readline()), output.readline().decode()


def test_a_fork_is_as_if_it_had_been_started_by_itself(template: Template, tmp_path: Path) -> None:
    before = os.nice(0)
    child = start(template, tmp_path, "7", "an argument")
    found, error = shown(child)
    assert found == {
        "loaded": True,
        "arguments": ["7", "an argument"],
        "main": "__main__",
        "folder": str(tmp_path),
        "environment": {"PYTHONPATH": str(tmp_path), "COLOUR": "grün"},
        "niceness": before + 3,
        "session": True,
        "parent": os.getpid(),
        "stdin": "/dev/null",
        "open": [0, 1, 2],
    }
    assert error == "wrong\n"
    assert child.process.wait(30) == 7
    assert child.has_ended()


def test_a_fork_shows_its_command_line_and_name_and_is_stopped_like_others(
    template: Template, tmp_path: Path
) -> None:
    child = start(template, tmp_path, "sleep")
    shown(child)
    process = psutil.Process(child.process.pid)
    assert [it for it in process.cmdline() if it] == [sys.executable, "-m", "shows", "sleep"]
    assert Path(f"/proc/{process.pid}/comm").read_text() == "shows\n"
    assert not child.has_ended()
    with pytest.raises(TimeoutError, match="still runs"):
        child.process.wait(0)
    stop_children([child])
    assert child.process.returncode == -signal.SIGTERM


def test_forks_go_on_without_their_template_and_later_programs_start_by_themselves(
    template: Template, tmp_path: Path
) -> None:
    first = start(template, tmp_path, "sleep")
    shown(first)
    template._process.kill()
    second = start(template, tmp_path, "5")
    found, _ = shown(second)
    assert found["loaded"] is False
    assert found["arguments"] == ["5"]
    assert second.process.wait(30) == 5
    assert not first.has_ended()
    stop_children([first])

"""What takes hours goes on where it was stopped (`tools/night.py`)."""

import sys
from pathlib import Path

import pytest
from night import Night, Step, steps_of, summary_of


def step(name: str, code: str) -> Step:
    return Step(name, (sys.executable, "-c", code))


def counted(tmp_path: Path, name: str) -> Step:
    """Return a step that writes a line each time it runs."""
    return step(name, f"open({str(tmp_path / name)!r}, 'a').write('x'); print('1 passed\\n====')")


def test_a_step_that_ended_is_not_repeated(tmp_path: Path) -> None:
    folder, once = tmp_path / "night", counted(tmp_path, "once")
    first = Night(folder, "project")
    assert first.run(once).summary == "1 passed"
    second = Night(folder, "project")
    assert second.run(once).ok
    assert second.seed == first.seed
    assert (tmp_path / "once").read_text() == "x"


def test_a_step_that_was_interrupted_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, again = tmp_path / "night", counted(tmp_path, "again")
    interrupted = Night(folder, "project")
    with monkeypatch.context() as patch:
        patch.setattr("night.summary_of", lambda output: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            interrupted.run(again)
    Night(folder, "project").run(again)
    assert (tmp_path / "again").read_text() == "xx"


def test_another_state_of_the_project_begins_anew(tmp_path: Path) -> None:
    folder, twice = tmp_path / "night", counted(tmp_path, "twice")
    Night(folder, "project").run(twice)
    Night(folder, "changed").run(twice)
    assert (tmp_path / "twice").read_text() == "xx"


def test_a_failed_step_is_remembered_as_failed(tmp_path: Path) -> None:
    failing = step("failing", "print('3 failed'); raise SystemExit(1)")
    Night(tmp_path, "project").run(failing)
    kept = Night(tmp_path, "project").run(failing)
    assert (kept.ok, kept.summary) == (False, "3 failed")
    assert (tmp_path / "failing.log").read_text() == "3 failed\n"


@pytest.mark.parametrize(
    ("output", "summary"),
    [
        ("..\n== 12 passed in 3 s ==\n", "12 passed in 3 s"),
        ("losses: 0\n\n└────┘\n", "losses: 0"),
        ("", ""),
    ],
)
def test_the_summary_is_the_last_line_with_words(output: str, summary: str) -> None:
    assert summary_of(output) == summary


def test_each_step_has_a_name_of_its_own_and_each_order_another_seed() -> None:
    steps = steps_of(5)
    assert len({step.name for step in steps}) == len(steps)
    orders = {step.command[-1] for step in steps if step.name.startswith("order-")}
    assert orders == {f"--randomly-seed={seed}" for seed in range(6, 16)}


def test_the_time_of_a_step_is_that_of_its_processes(tmp_path: Path) -> None:
    ended = Night(tmp_path, "project").run(step("busy", "sum(range(1_000_000))"))
    assert ended.processor > 0

"""Stopping and deploying: running work is finished, and no request fails."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from socket import gethostname

from drill.faults import frozen
from drill.scene import SLOW, WORKING, Scene
from support.servers import COMMAND, processes_in, wait_until


def test_a_worker_that_is_stopped_finishes_the_accounts_that_it_holds(scene: Scene) -> None:
    numbers = scene.stage(6, f"{SLOW}TERM-")
    worker = scene.main_process("interactive")
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(scene.process, number, wait=True) for number in numbers]
        wait_until(lambda: scene.worker_at(WORKING), "a worker is creating one")
        held = set(numbers) - _not_locked(scene)
        assert held
        worker.send_signal(signal.SIGTERM)
        worker.wait(20)
        assert {answer.result().status_code for answer in answers} == {201}
    rows = scene.query(
        "SELECT external_account_number, state, tries FROM account_import_process "
        "WHERE external_account_number LIKE %s",
        f"{SLOW}TERM-%",
    )
    assert {state for _, state, _ in rows} == {"IMPORTED"}
    # Accounts that were still queued may be dispatched again while the worker restarts.
    assert {tries for number, _, tries in rows if number in held} == {1}, "an account was processed again"


def test_drained_workers_finish_what_they_have_and_take_nothing_until_they_are_restarted(
    scene: Scene,
) -> None:
    scene.wait_until_quiet(60)  # a worker that was stopped may have left messages
    held = scene.stage(6, f"{SLOW}DRAIN-")
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(scene.process, number, wait=True) for number in held]
        wait_until(lambda: scene.worker_at(WORKING), "a worker is creating one")
        try:
            drained = _drain(scene)
            host = gethostname()
            assert drained.stdout.endswith(
                f"Without work: background@{host}, interactive@{host}. "
                "Stop them, or restart them to give them work again.\n"
            )
            assert scene.messages()["unacknowledged"] == 0
            late = pool.submit(scene.process, *scene.stage(1, "LATE-DRAIN-"), wait=True)
            wait_until(lambda: scene.messages()["interactive"], "the message waits")
            assert _drain(scene).returncode == 1  # none takes work
        finally:
            _restart_workers(scene)
        assert {answer.result().status_code for answer in [*answers, late]} == {201}


def _restart_workers(scene: Scene) -> None:
    for name in ("interactive", "background"):
        worker = scene.main_process(name)
        worker.send_signal(signal.SIGTERM)
        worker.wait(20)  # busy ones have 25 seconds


def _drain(scene: Scene) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(COMMAND), "workers", "drain", gethostname()],
        env=os.environ | {"MIGRATION_SERVICE_HOME": str(scene.home)},
        capture_output=True,
        text=True,
        check=False,
    )


def _not_locked(scene: Scene) -> set[str]:
    """Return the accounts that no worker holds now."""
    free = "SELECT external_account_number FROM account_import_process FOR UPDATE SKIP LOCKED"
    return {number for (number,) in scene.query(free)}


def test_a_web_server_that_is_stopped_answers_the_requests_that_it_has(scene: Scene) -> None:
    numbers = scene.stage(5, "WEB-TERM-")
    web = scene.main_process("web")
    with ThreadPoolExecutor() as pool:
        with frozen(processes_in(scene.home / "programs" / "interactive")):
            answers = [pool.submit(scene.process, number, wait=True) for number in numbers]
            wait_until(lambda: scene.in_progress() == len(numbers), "they wait for their accounts")
            web.send_signal(signal.SIGTERM)
        assert {answer.result().status_code for answer in answers} == {201}
    web.wait(45)
    wait_until(scene.is_serving, "the web server is back")

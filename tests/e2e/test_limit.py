"""The limit of the whole service, without Redis, and while parts are stopped: no request is lost."""

import os
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from socket import gethostname

import pytest
import requests
from sqlalchemy import func, select

from drill.faults import frozen
from drill.scene import LIMIT, SLOW, SUPPLIER, WORKING, Scene
from migration_service.config import Settings
from migration_service.models import AccountImportProcess
from migration_service.shares import THREADS
from migration_service.states import ImportState
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.servers import COMMAND, processes_in, wait_until
from support.supplier_client import API, SupplierClient
from support.web_servers import is_answered, web_server

CLIENTS = 1_250


def test_of_1250_simultaneous_clients_250_are_served_and_the_others_answered_429(scene: Scene) -> None:
    numbers = scene.stage(CLIENTS, "LIMIT-")
    with ThreadPoolExecutor(CLIENTS) as pool:
        # Accepted accounts stay in progress.
        with frozen(processes_in(scene.home / "programs" / "interactive")):
            answers = [pool.submit(scene.process, number, wait=True) for number in numbers]
            wait_until(lambda: _answered(answers) == CLIENTS - LIMIT, "the refusals")
            assert scene.in_progress() == scene.slots_in_use() == LIMIT
            # While 250 requests wait, all other clients are served as usual.
            for number in numbers[:20]:
                assert scene.send("GET", f"account-transfer-status/{SUPPLIER}/{number}/").status_code == 200
            assert scene.stage(5, "LIMIT-MEANWHILE-")
            assert _answered(answers) == CLIENTS - LIMIT, "a request stopped waiting"
        found = [answer.result() for answer in answers]
    assert Counter(answer.status_code for answer in found) == {201: LIMIT, 429: CLIENTS - LIMIT}
    for refused in (answer for answer in found if answer.status_code == 429):
        # A web process has no more threads for one organisation than those that others do not need.
        assert refused.json()["code"] in {"concurrency_limit_reached", "share_used"}
        assert 1 <= int(refused.headers["Retry-After"]) <= 6
    assert scene.states("LIMIT-") == {"IMPORTED": LIMIT, "PENDING": CLIENTS - LIMIT + 5}


@pytest.mark.long
def test_behind_250_waiting_requests_of_one_web_process_1000_others_are_answered(
    migrated: Settings, supplier: SupplierClient
) -> None:
    """A server that starts threads by the number of busy ones leaves some of the 250 in its queue."""
    numbers, port = supplier.stage_new(LIMIT), random_free_port()

    def process(number: str) -> int:
        body = {
            "import_supplier_code": supplier.code,
            "external_account_number": number,
            "operations_team_name": supplier.team,
        }
        headers = {"Authorization": f"Token {supplier.token}"}
        url = f"http://{LOOPBACK}:{port}{API}/account-import-process/process/"
        return requests.post(url, json=body, headers=headers, timeout=120).status_code

    def in_progress() -> int:
        waits = AccountImportProcess.state == ImportState.IN_PROGRESS
        with supplier.Session() as session:
            return session.scalars(select(func.count()).where(waits)).one()

    with (
        web_server(migrated, port, processes=1, threads=THREADS),
        ThreadPoolExecutor(LIMIT) as waiting,
        ThreadPoolExecutor(1_000) as others,
    ):
        answers = [waiting.submit(process, number) for number in numbers]
        wait_until(lambda: in_progress() == LIMIT, "all wait for a worker, of which there is none")
        assert all(others.map(lambda _: is_answered(port, timeout=20), range(1_000)))
        assert not any(answer.done() for answer in answers)
        assert {answer.result() for answer in answers} == {429}


def _answered(answers: list["Future[requests.Response]"]) -> int:
    return sum(answer.done() for answer in answers)


#: No answer of the web server may take so many seconds while Redis is unavailable.
ANSWERS_WITHIN = 8.0


def test_while_redis_is_frozen_everything_works_but_process_which_is_answered_503(scene: Scene) -> None:
    [number] = scene.stage(1, "FROZEN-")
    crowd = scene.stage(60, "CROWD-")
    answers: list[tuple[int, float]] = []

    def ask(one: str) -> None:
        started = time.monotonic()
        answers.append((scene.process(one, wait=True).status_code, time.monotonic() - started))

    with frozen(processes_in(scene.home / "valkey")):
        started = time.monotonic()
        refused = scene.process(number, wait=True)
        assert (refused.status_code, refused.json()["code"]) == (503, "service_unavailable")
        assert int(refused.headers["Retry-After"]) >= 1
        scene.stage(2, "FROZEN-MEANWHILE-")
        assert (
            scene.send("GET", f"account-transfer-status/{SUPPLIER}/{number}/").json()["status"] == "UNKNOWN"
        )
        assert scene.send("GET", f"pending-account-import-processes/{SUPPLIER}/").status_code == 200
        assert requests.get(f"{scene.address.url}/health/ready", timeout=30).json()["redis"] == "unavailable"
        assert time.monotonic() - started < 5 * ANSWERS_WITHIN
        with ThreadPoolExecutor(len(crowd)) as pool:
            list(pool.map(ask, crowd))
    # If other organisations need the process, too, some wait for their turn until they are refused.
    assert {503} <= {status for status, _ in answers} <= {429, 503}
    assert max(seconds for _, seconds in answers) < ANSWERS_WITHIN
    assert scene.states("FROZEN-") == {"PENDING": 3}

    def created() -> bool:
        answer = scene.process(number, wait=True)
        return answer.status_code == 201 or answer.json()["code"] == "account_already_imported"

    wait_until(created, f"{number} is created")


def test_a_worker_that_is_stopped_finishes_the_accounts_that_it_holds(scene: Scene) -> None:
    numbers = scene.stage(6, f"{SLOW}TERM-")
    worker = scene.main_process("interactive")
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(scene.process, number, wait=True) for number in numbers]
        wait_until(lambda: scene.worker_at(WORKING), "a worker is creating one")
        free = scene.query(
            "SELECT external_account_number FROM account_import_process FOR UPDATE SKIP LOCKED"
        )
        held = set(numbers) - {number for (number,) in free}
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


@pytest.mark.long
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
            for name in ("interactive", "background"):
                worker = scene.main_process(name)
                worker.send_signal(signal.SIGTERM)
                worker.wait(20)  # busy ones have 25 seconds
        assert {answer.result().status_code for answer in [*answers, late]} == {201}


def _drain(scene: Scene) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(COMMAND), "workers", "drain", gethostname()],
        env=os.environ | {"MIGRATION_SERVICE_HOME": str(scene.home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
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

"""The concurrency limit (section 8) of the whole service: 1,250 clients with a limit of 250, and changes."""

import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import requests
from sqlalchemy import func, select

from drill.faults import frozen, signal_all
from drill.scene import LIMIT, SUPPLIER, Scene
from migration_service.config import Settings
from migration_service.models import AccountImportProcess
from migration_service.shares import THREADS
from migration_service.states import ImportState
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.servers import processes_in, wait_until
from support.supplier_client import API, SupplierClient
from support.web_servers import is_answered, web_server

CLIENTS = 1_250


@pytest.fixture(autouse=True)
def limit_as_before(scene: Scene) -> Iterator[None]:
    yield
    scene.set_limit(LIMIT)


@contextmanager
def workers_frozen(scene: Scene) -> Iterator[None]:
    """Freeze the workers, so that accepted accounts stay in progress."""
    with frozen(processes_in(scene.home / "programs" / "interactive")):
        yield


def test_of_1250_simultaneous_clients_250_are_served_and_the_others_answered_429(scene: Scene) -> None:
    numbers = scene.stage(CLIENTS, "LIMIT-")
    with ThreadPoolExecutor(CLIENTS) as pool:
        with workers_frozen(scene):
            answers = [pool.submit(scene.process, number, wait=True) for number in numbers]
            wait_until(lambda: _answered(answers) == CLIENTS - LIMIT, "the refusals")
            assert scene.in_progress() == scene.slots_in_use() == LIMIT
            # While 250 requests wait, all other clients are served as usual.
            for number in numbers[:20]:
                assert _status(scene, number).status_code == 200
            assert scene.stage(5, "LIMIT-MEANWHILE-")
            assert _answered(answers) == CLIENTS - LIMIT, "a request stopped waiting"
        found = [answer.result() for answer in answers]
    assert Counter(answer.status_code for answer in found) == {201: LIMIT, 429: CLIENTS - LIMIT}
    for refused in (answer for answer in found if answer.status_code == 429):
        # A web process has no more threads for one organisation than those that others do not need.
        assert refused.json()["code"] in {"concurrency_limit_reached", "share_used"}
        assert 1 <= int(refused.headers["Retry-After"]) <= 3
    assert scene.states("LIMIT-") == {"IMPORTED": LIMIT, "PENDING": CLIENTS - LIMIT + 5}


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


def test_the_limit_is_changed_and_switched_off_while_the_service_runs(scene: Scene) -> None:
    numbers = iter(scene.stage(30, "CHANGE-"))
    with workers_frozen(scene):
        scene.set_limit(3)
        assert scene.process(next(numbers), dry_run=True).status_code == 202  # takes a slot, too
        assert [scene.process(next(numbers)).status_code for _ in range(3)] == [202, 202, 429]
        scene.set_limit(5)
        assert [scene.process(next(numbers)).status_code for _ in range(3)] == [202, 202, 429]
        scene.set_limit(None)
        assert {scene.process(next(numbers)).status_code for _ in range(15)} == {202}
        scene.set_limit(10)
        assert scene.process(next(numbers)).status_code == 429
        assert scene.in_progress() == 20
    wait_until(lambda: scene.states("CHANGE-") == {"IMPORTED": 19, "PENDING": 11}, "all are created")


def test_slots_of_killed_workers_are_released(scene: Scene) -> None:
    numbers = scene.stage(6, "SLOW-KILLED-")
    scene.set_limit(5)
    with workers_frozen(scene):
        assert [scene.process(number).status_code for number in numbers] == [202] * 5 + [429]
        signal_all(processes_in(scene.home / "programs" / "interactive"), signal.SIGKILL)
    wait_until(lambda: scene.slots_in_use() == 0, "the slots are free")
    assert scene.states("SLOW-KILLED-") == {"IMPORTED": 5, "PENDING": 1}
    assert scene.process(numbers[-1], wait=True).status_code == 201


def _answered(answers: list["Future[requests.Response]"]) -> int:
    return sum(answer.done() for answer in answers)


def _status(scene: Scene, number: str) -> requests.Response:
    return scene.send("GET", f"account-transfer-status/{SUPPLIER}/{number}/")

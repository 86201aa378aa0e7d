"""Redis is frozen under load, and the web server still answers."""

import time
from concurrent.futures import ThreadPoolExecutor

import requests

from drill.faults import frozen
from drill.scene import SUPPLIER, Scene
from support.servers import processes_in, wait_until

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
    assert _process_until_created(scene, number)


def _process_until_created(scene: Scene, number: str) -> bool:
    def created() -> bool:
        answer = scene.process(number, wait=True)
        return answer.status_code == 201 or answer.json()["code"] == "account_already_imported"

    wait_until(created, f"{number} is created")
    return True

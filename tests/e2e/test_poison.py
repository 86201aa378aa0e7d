"""An account that kills every worker that creates it is reported as failed. Other accounts are created."""

from drill.poison import Poisoner
from drill.scene import POISON, Scene
from migration_service.services.processing.attempts import MAX_TRIES
from support.servers import wait_until


def test_an_account_that_kills_its_workers_fails_with_a_reason_and_affects_no_other(scene: Scene) -> None:
    [poison] = scene.stage(1, POISON)
    others = scene.stage(20, "BESIDE-POISON-")
    poisoner = Poisoner(scene)
    poisoner.start()
    try:
        assert scene.process(poison).status_code == 202
        wait_until(lambda: poisoner.killed, "the first victim")
        assert {scene.process(number, wait=True).status_code for number in others} == {201}
        wait_until(lambda: scene.states(POISON) == {"PENDING": 1}, "the account is given up", 90)
    finally:
        poisoner.stop()
    [(outcome, code, detail)] = scene.query(
        "SELECT outcome, error_code, error_detail FROM attempt JOIN account_import_process process "
        "ON process.id = account_import_process_id WHERE external_account_number = %s",
        poison,
    )
    assert (outcome, code) == ("FAILED", "account_creation_failed")
    assert "the worker ended each time" in detail
    assert 1 <= len(poisoner.killed) <= MAX_TRIES

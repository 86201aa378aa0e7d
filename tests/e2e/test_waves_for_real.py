"""A plan of waves that runs by itself with the real processes, while workers and beat are killed."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from drill.scene import SLOW, SUPPLIER, TEAM, WORKING, Scene
from migration_service_local.samples import generate_accounts
from support.batch_client import ndjson
from support.servers import wait_until

#: Accounts of a wave: some are created slowly, so that a worker can be killed in the middle.
_ACCOUNTS, _SLOW = 60, 8


def _window(since: float, until: float) -> dict[str, Any]:
    """Return a window of each day that is open between these hours from now on."""
    now = datetime.now(UTC)
    start, end = (f"{now + timedelta(hours=hours):%H:%M}" for hours in (since, until))
    return {
        "start": start,
        "end": end,
        "time_zone": "UTC",
        "first_day": f"{now - timedelta(days=1):%Y-%m-%d}",
    }


def _states(scene: Scene, plan_id: str) -> list[str]:
    rows = scene.query("SELECT state FROM wave WHERE plan_id = %s ORDER BY number", plan_id)
    return [state for (state,) in rows]


def _is_creating(scene: Scene, plan_id: str, wave: int) -> bool:
    """Return whether a worker is in the middle of a chunk of this wave, or was, as that lasts for moments."""
    state = _states(scene, plan_id)[wave - 1]
    working = "SELECT FROM pg_stat_activity WHERE application_name = %s"
    return state in ("RECONCILING", "CLEAN") or (state == "RUNNING" and bool(scene.query(working, WORKING)))


@pytest.mark.long
def test_waves_run_by_themselves_while_workers_and_beat_are_killed(scene: Scene) -> None:
    rng = Random(17)
    numbers = [
        [f"{SLOW if index < _SLOW else ''}WAVE-{wave}-{index}" for index in range(_ACCOUNTS)]
        for wave in (1, 2, 3)
    ]
    accounts = generate_accounts(3 * _ACCOUNTS, supplier=SUPPLIER, seed=1)
    lines = [next(accounts) | {"external_account_number": it} for wave in numbers for it in wave]
    staging = f"batches/{scene.start_batch(ndjson(lines), 'stage')}/"
    wait_until(lambda: scene.send("GET", staging).json()["state"] == "COMPLETED", "everything is staged")
    body = {
        "import_supplier": SUPPLIER,
        "operations_team_name": TEAM,
        "continue_if_clean": True,
        "window": _window(-2, 2),
        "waves": [
            {"accounts": numbers[0]},
            {"accounts": numbers[1]},
            {"accounts": numbers[2], "window": _window(3, 5)},
        ],
    }
    answer = scene.send("POST", "wave-plans/", json=body)
    assert answer.status_code == 201, answer.text
    plan_id = answer.json()["plan_id"]

    scene.kill("background")
    wait_until(lambda: _is_creating(scene, plan_id, 1), "the first wave is in the middle")
    scene.kill("background")
    wait_until(lambda: _is_creating(scene, plan_id, 2), "the second wave is in the middle", 150)
    rng.choice(scene.main_process("background").children()).kill()
    scene.kill("background")
    wait_until(lambda: _states(scene, plan_id) == ["CLEAN", "CLEAN", "WAITING"], "both are clean", 90)

    created = "SELECT external_account_number FROM account WHERE external_account_number LIKE %s"
    found = [number for (number,) in scene.query(created, "%WAVE-%")]
    assert sorted(found) == sorted(numbers[0] + numbers[1]), "each once, and none outside of its window"
    # A wave created accounts only between its beginning and its reconciliation.
    rows = scene.query(
        """
        SELECT wave.began_at, min(process.account_created_at), max(process.account_created_at),
               wave.reconciled_at
        FROM wave JOIN batch_line AS line ON line.batch_id = wave.batch_id
        JOIN account_import_process AS process
          ON process.external_account_number = line.external_account_number
        WHERE wave.plan_id = %s AND wave.number < 3
        GROUP BY wave.number, wave.began_at, wave.reconciled_at ORDER BY wave.number
        """,
        plan_id,
    )
    moments = [moment for row in rows for moment in row]
    assert len(moments) == 8
    assert moments == sorted(moments)
    told = (
        "SELECT action, count(*) FROM audit_entry WHERE subject_kind = 'wave' AND subject LIKE %s "
        "AND action IN ('wave.began', 'wave.reconciled', 'wave.found_clean') GROUP BY action"
    )
    assert dict(scene.query(told, f"{plan_id} %")) == {
        "wave.began": 2,
        "wave.reconciled": 2,
        "wave.found_clean": 2,
    }
    stop = scene.send("POST", f"wave-plans/{plan_id}/waves/3/stop/", json={"reason": "The test is over."})
    assert stop.status_code == 200, stop.text

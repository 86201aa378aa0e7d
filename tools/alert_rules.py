"""Try every alert both ways: `python tools/alert_rules.py`, or as a part of `make prometheus-check`.

No alert may fire for the series of a healthy batch that runs for two hours beside requests. Each alert must
fire for the series of its own fault. Needs promtool, from Debian's package prometheus.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RULES = Path(__file__).resolve().parent.parent / "monitoring/alerts.yml"
_MINUTES = range(1, 121)

_REQUESTS = "migration_http_request_duration_seconds"
_ROUTE = "/v1/data-import/account-import-process/process/"
_PROCESS = f'instance="a",job="migration-service",method="POST",route="{_ROUTE}"'
_CREATED = f'{_REQUESTS}_count{{{_PROCESS},status="201"}}'
_REFUSED = f'{_REQUESTS}_count{{{_PROCESS},status="429"}}'
_FAST = f'{_REQUESTS}_bucket{{{_PROCESS},status="201",le="1"}}'
_SLOW = f'{_REQUESTS}_bucket{{{_PROCESS},status="201",le="25"}}'
_ALL = f'{_REQUESTS}_bucket{{{_PROCESS},status="201",le="+Inf"}}'
_TASKS = "migration_task_duration_seconds_count"
_WAITS = "migration_queue_wait_seconds_count"
_VENDOR = "migration_vendor_call_duration_seconds_count"
_SECURITY = "migration_security_events_total"

# Values in promtool's notation: `0+30x480` is 0, 30, 60 ... and `200 100x479` begins with 200.
#: A batch at full speed: slots and attempts change together, but are not read at the same moment.
HEALTHY = {
    'up{job="migration-service",instance="a"}': "1x480",
    'migration_part_up{part="database"}': "1x480",
    'migration_part_up{part="redis"}': "1x480",
    "migration_sweep_age_seconds": " ".join(["0", "5", "3", "1"] * 120),
    "migration_oldest_dispatch_age_seconds": " ".join(["0", "1", "0", "2"] * 120),
    'migration_queue_messages{queue="interactive"}': " ".join(["0", "3", "40", "1"] * 120),
    'migration_queue_messages{queue="batch"}': " ".join(["8", "7", "6", "8"] * 120),
    'migration_queue_messages{queue="maintenance"}': " ".join(["0", "1", "0", "4"] * 120),
    f'{_WAITS}{{queue="interactive"}}': "0+100x480",
    f'{_WAITS}{{queue="batch"}}': "0+50x480",
    'migration_replication_slot_active{slot="backup"}': "1x480",
    'migration_replication_slot_held_bytes{slot="backup"}': " ".join(["0", "16000000", "2000000", "0"] * 120),
    'migration_batch_idle_seconds{supplier="S"}': " ".join(["0", "1", "0", "3"] * 120),
    'migration_batches_paused_by_errors{supplier="S"}': "0x480",
    'migration_wave_decision_age_seconds{supplier="S",found="DIFFERS"}': "0x480",
    # A person approves a pilot after half an hour.
    'migration_wave_decision_age_seconds{supplier="S",found="CLEAN"}': "0+15x120 0x359",
    "migration_event_horizon_age_seconds": " ".join(["0", "0.2", "12", "0"] * 120),
    "migration_slots_limit": "250x480",
    "migration_slots_in_use": " ".join(["200", "101", "200", "2"] * 120),
    "migration_attempts_in_progress": " ".join(["200", "101", "100", "2"] * 120),
    _CREATED: "0+150x480",
    _REFUSED: "0+1x480",
    _FAST: "0+150x480",
    _SLOW: "0+150x480",
    _ALL: "0+150x480",
    f'{_TASKS}{{task="batches.run_chunk",state="SUCCESS"}}': "0+150x480",
    f'{_TASKS}{{task="batches.run_chunk",state="FAILURE"}}': "0x480",
    'migration_attempts_total{outcome="SUCCEEDED",code=""}': "0+14000x480",
    'migration_attempts_total{outcome="FAILED",code="account_failed_validation"}': "0+700x480",
    f'{_VENDOR}{{vendor="v",outcome="ok"}}': "0+20x480",
    f'{_VENDOR}{{vendor="v",outcome="error"}}': "0+1x480",
    f'{_SECURITY}{{event="failed_login"}}': " ".join(["0x40", "1x439"]),
    f'{_SECURITY}{{event="refused_token"}}': "0x480",
    f'{_SECURITY}{{event="revoked_key_used"}}': "0x480",
    f'{_SECURITY}{{event="refresh_token_reused"}}': "0x480",
    "migration_counted_timestamp_seconds": "0+15x480",
    'migration_disk_size_bytes{instance="a",folder="data"}': "1000x480",
    # Two hours of a batch on a disk that has room for days of it.
    'migration_disk_free_bytes{instance="a",folder="data"}': "900-0.05x480",
}
#: The series that differ in the fault of each alert.
FAULTS = {
    "MigrationServiceDown": {'up{job="migration-service",instance="a"}': "0x480"},
    "MigrationDatabaseUnavailable": {'migration_part_up{part="database"}': "0x480"},
    "MigrationRedisUnavailable": {'migration_part_up{part="redis"}': "0x480"},
    "MigrationSweepDead": {"migration_sweep_age_seconds": "0+15x480"},
    "MigrationAttemptsStuck": {"migration_oldest_dispatch_age_seconds": "0+15x480"},
    "MigrationBatchStalled": {'migration_batch_idle_seconds{supplier="S"}': "0+15x480"},
    "MigrationBatchPaused": {'migration_batches_paused_by_errors{supplier="S"}': "0x240 1x239"},
    "MigrationWaveDiffers": {
        'migration_wave_decision_age_seconds{supplier="S",found="DIFFERS"}': "0x240 0+15x239"
    },
    "MigrationApprovalWaits": {
        'migration_wave_decision_age_seconds{supplier="S",found="CLEAN"}': "0x120 0+15x359"
    },
    "MigrationEventsHeld": {"migration_event_horizon_age_seconds": "0+15x480"},
    "MigrationQueueGrows": {'migration_queue_messages{queue="maintenance"}': "0+12x480"},
    "MigrationQueueWithoutWorker": {f'{_WAITS}{{queue="batch"}}': "700x480"},
    "MigrationSlotsFull": {"migration_slots_in_use": "250x480", "migration_attempts_in_progress": "250x480"},
    "MigrationSlotsLeak": {"migration_slots_in_use": "200x480", "migration_attempts_in_progress": "0x480"},
    "MigrationServerErrors": {f'{_REQUESTS}_count{{{_PROCESS},status="500"}}': "0+3x480"},
    "MigrationProcessSlow": {_FAST: "0+75x480"},
    "MigrationTasksFail": {f'{_TASKS}{{task="batches.run_chunk",state="FAILURE"}}': "0+1x480"},
    "MigrationAttemptsFail": {
        'migration_attempts_total{outcome="FAILED",code="account_failed_validation"}': "0+2800x480"
    },
    "MigrationVendorFails": {f'{_VENDOR}{{vendor="v",outcome="error"}}': "0+10x480"},
    "MigrationLoginsRefused": {f'{_SECURITY}{{event="failed_login"}}': "0+5x480"},
    "MigrationCredentialMisused": {f'{_SECURITY}{{event="revoked_key_used"}}': "0+1x480"},
    "MigrationCountsOld": {"migration_counted_timestamp_seconds": "0x480"},
    "MigrationDiskFills": {'migration_disk_free_bytes{instance="a",folder="data"}': "390-0.4x480"},
    "MigrationReplicaGone": {'migration_replication_slot_active{slot="backup"}': "0x480"},
    "MigrationReplicaBehind": {'migration_replication_slot_held_bytes{slot="backup"}': "0+1e7x480"},
    "MigrationDiskNearlyFull": {'migration_disk_free_bytes{instance="a",folder="data"}': "90x480"},
}
# This is no fault: a batch uses the only slot of a limit of 1, and no request is refused.
ALSO_HEALTHY = {
    "a limit of 1": {
        "migration_slots_limit": "1x480",
        "migration_slots_in_use": "1x480",
        "migration_attempts_in_progress": "1x480",
        _REFUSED: "0x480",
    },
}


def check_rules() -> None:
    """Try every alert both ways. Exit with promtool's report if one fires wrongly, or does not fire."""
    tests = [_silent("a healthy batch", {})]
    tests += [_silent(name, changes) for name, changes in ALSO_HEALTHY.items()]
    tests += [_loud(alert, changes) for alert, changes in FAULTS.items()]
    with tempfile.TemporaryDirectory(prefix="alert-rules-") as name:
        folder = Path(name)
        shutil.copy(RULES, folder)
        document = {"rule_files": ["alerts.yml"], "evaluation_interval": "15s", "tests": tests}
        (folder / "tests.yml").write_text(json.dumps(document))
        done = subprocess.run(["promtool", "test", "rules", "tests.yml"], cwd=folder, check=False)
    if done.returncode:
        sys.exit("An alert fires when it should not, or does not fire in its fault.")
    print(f"ok: {len(FAULTS)} alerts are silent in a healthy batch, and fire in their faults")


def _silent(name: str, changes: dict[str, str]) -> dict[str, Any]:
    firing = 'ALERTS{alertstate="firing"}'
    expected = [{"expr": firing, "eval_time": f"{minute}m", "exp_samples": []} for minute in _MINUTES]
    return _test(name, changes, expected)


def _loud(alert: str, changes: dict[str, str]) -> dict[str, Any]:
    firing = f'count by (alertname) (ALERTS{{alertstate="firing",alertname="{alert}"}})'
    sample = {"labels": f'{{alertname="{alert}"}}', "value": 1}
    return _test(alert, changes, [{"expr": firing, "eval_time": "110m", "exp_samples": [sample]}])


def _test(name: str, changes: dict[str, str], expected: list[dict[str, Any]]) -> dict[str, Any]:
    series = [{"series": key, "values": values} for key, values in (HEALTHY | changes).items()]
    return {"name": name, "interval": "15s", "input_series": series, "promql_expr_test": expected}


if __name__ == "__main__":
    check_rules()

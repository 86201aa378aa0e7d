"""Write monitoring/grafana-dashboard.json: `make docs`."""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "monitoring/grafana-dashboard.json"

_REQUESTS = "migration_http_request_duration_seconds"
_TASKS = "migration_task_duration_seconds"
_VENDORS = "migration_vendor_call_duration_seconds"


def _slow(share: float, metric: str, by: str) -> str:
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket[$__rate_interval])))"


# Title, unit, and the queries with their legends.
PANELS: list[tuple[str, str, list[tuple[str, str]]]] = [
    (
        "Accounts by state",
        "short",
        [("sum by (state) (max by (supplier, state) (migration_accounts))", "{{state}}")],
    ),
    (
        "Imported accounts a second, by supplier",
        "short",
        [('max by (supplier) (deriv(migration_accounts{state="IMPORTED"}[5m]))', "{{supplier}}")],
    ),
    (
        "Slots",
        "short",
        [
            ("max(migration_slots_in_use)", "in use"),
            ("max(migration_slots_limit)", "limit"),
            ("max(migration_attempts_in_progress)", "attempts in progress"),
        ],
    ),
    (
        "Waiting messages",
        "short",
        [
            ("max by (queue) (migration_queue_messages)", "{{queue}}"),
            ("max(migration_unacknowledged_messages)", "with a worker"),
        ],
    ),
    (
        "Wait in each queue: 95th percentile",
        "s",
        [(_slow(0.95, "migration_queue_wait_seconds", "queue"), "{{queue}}")],
    ),
    (
        "Age of the oldest message, and of the last sweep",
        "s",
        [
            ("max(migration_oldest_dispatch_age_seconds)", "oldest message"),
            ("max(migration_sweep_age_seconds)", "last sweep"),
        ],
    ),
    (
        "Requests a second, by status",
        "reqps",
        [(f"sum by (status) (rate({_REQUESTS}_count[$__rate_interval]))", "{{status}}")],
    ),
    (
        "Requests a second, by route",
        "reqps",
        [(f"sum by (route) (rate({_REQUESTS}_count[$__rate_interval]))", "{{route}}")],
    ),
    ("Time of requests: 99th percentile", "s", [(_slow(0.99, _REQUESTS, "route"), "{{route}}")]),
    ("Time of requests: median", "s", [(_slow(0.5, _REQUESTS, "route"), "{{route}}")]),
    (
        "Tasks a second, by name and state",
        "short",
        [(f"max by (task, state) (rate({_TASKS}_count[$__rate_interval]))", "{{task}} {{state}}")],
    ),
    (
        "Time of tasks: 95th percentile",
        "s",
        [
            (
                f"histogram_quantile(0.95, max by (le, task) (rate({_TASKS}_bucket[$__rate_interval])))",
                "{{task}}",
            )
        ],
    ),
    (
        "Attempts in an hour, by outcome and code",
        "short",
        [("max by (outcome, code) (increase(migration_attempts_total[1h]))", "{{outcome}} {{code}}")],
    ),
    (
        "Batches that are not over: lines by status",
        "short",
        [("max by (supplier, status) (migration_open_batch_lines)", "{{supplier}} {{status}}")],
    ),
    (
        "For how long no line of a running batch was worked on",
        "s",
        [("max by (supplier) (migration_batch_idle_seconds)", "{{supplier}}")],
    ),
    (
        "Batches that are not over",
        "short",
        [("max by (supplier, state) (migration_open_batches)", "{{supplier}} {{state}}")],
    ),
    (
        "Batches that the error threshold has paused",
        "short",
        [("max by (supplier) (migration_batches_paused_by_errors)", "{{supplier}}")],
    ),
    (
        "For how long a wave has waited for a decision",
        "s",
        [("max by (supplier, found) (migration_wave_decision_age_seconds)", "{{supplier}} {{found}}")],
    ),
    (
        "Age of the oldest transaction, which events wait for",
        "s",
        [("max(migration_event_horizon_age_seconds)", "age")],
    ),
    (
        "Calls of payment vendors a second",
        "reqps",
        [(f"max by (vendor, outcome) (rate({_VENDORS}_count[$__rate_interval]))", "{{vendor}} {{outcome}}")],
    ),
    (
        "Security events in ten minutes",
        "short",
        [("sum by (event) (increase(migration_security_events_total[10m]))", "{{event}}")],
    ),
    (
        "Free share of the disks",
        "percentunit",
        [
            (
                "min by (instance, folder) (migration_disk_free_bytes / migration_disk_size_bytes)",
                "{{instance}} {{folder}}",
            )
        ],
    ),
    ("Size of the database", "bytes", [("max(migration_database_bytes)", "database")]),
    (
        "WAL that replication slots keep",
        "bytes",
        [("max by (slot) (migration_replication_slot_held_bytes)", "{{slot}}")],
    ),
    (
        "Replication slots that are read",
        "short",
        [("min by (slot) (migration_replication_slot_active)", "{{slot}}")],
    ),
    ("Parts that answer", "short", [("min by (part) (migration_part_up)", "{{part}}")]),
    (
        "Reads of keys, sessions and suppliers a second",
        "reqps",
        [("sum by (source) (rate(migration_reference_reads_total[$__rate_interval]))", "{{source}}")],
    ),
]


def render() -> str:
    """Return the text of the dashboard's file."""
    dashboard = {
        "title": "Account Migration Import Service",
        "uid": "migration-service",
        "tags": ["migration-service"],
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [{"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(index, *panel) for index, panel in enumerate(PANELS)],
    }
    return json.dumps(dashboard, indent=2) + "\n"


def _panel(index: int, title: str, unit: str, queries: list[tuple[str, str]]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (index % 2), "y": 8 * (index // 2)},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": source, "expr": query, "legendFormat": legend}
            for number, (query, legend) in enumerate(queries)
        ],
    }


if __name__ == "__main__":
    FILE.write_text(render())

"""Plans of waves over the interface, with a clock that the test sets, and the sweeps that carry them on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID

from migration_service.services.batches import clock
from migration_service.services.waves.sweep import advance_plans, reconcile_waves
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient

#: A window of two hours each night.
NIGHT = {"start": "22:00", "end": "00:00", "time_zone": "UTC", "first_day": "2026-03-02"}
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
EVENING = datetime(2026, 3, 2, 22, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class WaveClient:
    """The plans of one supplier."""

    batches: BatchClient
    now: datetime = NOON

    @property
    def supplier(self) -> SupplierClient:
        return self.batches.supplier

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Windows open and close by the clock of the test."""
        with patch.object(clock, "read_clock", lambda _session: self.now):
            yield

    def stage(self, number: int) -> list[str]:
        """The numbers of accounts that are pending now."""
        return self.supplier.stage_new(number)

    def plan(self, *waves: dict[str, Any], **more: Any) -> dict[str, Any]:
        answer = self.post_plan(*waves, **more)
        assert answer.status_code == 201, answer.text
        report: dict[str, Any] = answer.json
        return report

    def post_plan(self, *waves: dict[str, Any], **more: Any) -> Any:
        """POST /wave-plans/, with what a test does not say filled in."""
        supplier = self.supplier
        body = {"import_supplier": supplier.code, "operations_team_name": supplier.team, "waves": waves}
        return supplier.post("/wave-plans/", {**body, **more})

    def act(self, plan: dict[str, Any], number: int, action: str, **body: str) -> Any:
        """POST /wave-plans/<id>/waves/<number>/<action>/."""
        path = f"/wave-plans/{plan['plan_id']}/waves/{number}/{action}/"
        return self.supplier.post(path, body or None)

    def get(self, plan: dict[str, Any]) -> dict[str, Any]:
        """GET /wave-plans/<id>/."""
        return dict(self.supplier.read(f"/wave-plans/{plan['plan_id']}/"))

    def states(self, plan: dict[str, Any]) -> list[str]:
        return [wave["state"] for wave in self.get(plan)["waves"]]

    def sweep(self) -> None:
        """Do what beat has a worker do every five seconds."""
        advance_plans(self.batches.resources.Session)
        reconcile_waves(self.batches.resources.Session, seconds=60)

    def run(self) -> None:
        """Let sweeps and workers do everything that is due at this moment of the clock."""
        for _ in range(3):
            self.sweep()
            self.batches.work()
        self.sweep()

    def batch_id(self, plan: dict[str, Any], number: int) -> UUID:
        return UUID(plan["waves"][number - 1]["batch_id"])

"""The figures of the old system: a comparison that has begun goes on with the newest file."""

from typing import Any

import pytest

from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.models import Comparison
from migration_service.services.reconciliation import comparisons, old_figures
from support.batch_client import BatchClient

pytestmark = pytest.mark.usefixtures("neighbour")


def test_the_newest_file_holds_even_for_a_comparison_that_is_half_done(
    batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    supplier = batches.supplier
    path = f"/reconciliation/{supplier.code}/old-figures/"

    def send(more: int) -> None:
        lines = [{"external_account_number": it, "meter_points": points[it] + more} for it in points]
        assert supplier.put(path, data=b"\n".join(map(encode_json, lines))).status_code == 200

    accounts = supplier.accounts(5)
    batches.run(accounts)
    points = {
        it["external_account_number"]: sum(len(at["meter_points"]) for at in it["supply_addresses"])
        for it in accounts
    }
    send(77)
    monkeypatch.setattr(old_figures, "PAGE", 2)
    with supplier.Session.begin() as session:
        comparison_id = comparisons.start_comparison(session, supplier.known())[0].id

    def do_piece() -> Comparison:
        with supplier.Session.begin() as session:
            comparisons.do_piece(session, comparison_id)
            return session.get_one(Comparison, comparison_id, populate_existing=True)

    while do_piece().stage != comparisons.Stage.OLD_FIGURES:
        pass
    assert do_piece().totals["figures"]["differing"] == 2
    send(0)
    assert comparisons.wait_for_comparison(supplier.Session, comparison_id)
    found: dict[str, Any] = parse_json(supplier.get(path).data)
    assert (found["accounts"], found["compared"], found["differing"]) == (5, 5, 0)
    assert parse_json(supplier.get(f"{path}differences/").data) == []

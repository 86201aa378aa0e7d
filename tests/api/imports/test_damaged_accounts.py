"""Generated accounts pass the strict profile. Damaged ones are answered 200 or 400, never 5xx."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings

from support.examples import TIMES
from support.mutations import damaged_accounts
from support.supplier_client import SupplierClient


@settings(
    max_examples=75 * TIMES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(damaged=damaged_accounts())
def test_a_damaged_account_is_answered_200_or_400(supplier: SupplierClient, damaged: Any) -> None:
    if isinstance(damaged, dict) and damaged.get("import_supplier") == "S":
        damaged = {**damaged, "import_supplier": supplier.code}
    body = json.dumps(damaged)
    answer = supplier.post("/validate-account/", data=body, content_type="application/json")
    assert answer.status_code in (200, 400), answer.get_data(as_text=True)
    assert supplier.stage(damaged).status_code in (200, 201, 400)
    if answer.status_code == 400:
        assert (answer.json or {})["errors"]

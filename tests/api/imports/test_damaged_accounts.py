"""Generated accounts pass the strict profile. Damaged ones are answered 200 or 400, never 5xx."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings

from migration_service_local.samples import FAULTS, generate_accounts_with_faults
from support.examples import TIMES
from support.mutations import damaged_accounts
from support.supplier_client import SupplierClient


def test_generated_accounts_pass_the_strict_profile(supplier: SupplierClient) -> None:
    for account in supplier.accounts(100):
        answer = supplier.validate(account, query_string={"profile": "strict"})
        assert answer.status_code == 200, answer.json


def test_every_known_fault_is_answered_with_its_code(supplier: SupplierClient) -> None:
    seen = set()
    for account, fault in generate_accounts_with_faults(
        120, supplier=supplier.code, seed=5, broken_share=1.0
    ):
        assert fault is not None
        answer = supplier.validate(account)
        assert answer.status_code == 400, fault
        assert FAULTS[fault].code in {error["code"] for error in (answer.json or {})["errors"]}, fault
        seen.add(fault)
    assert len(seen) > 20


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

"""Control totals over HTTP: what the supplier says, compared with the file."""

from typing import Any

import msgspec

from migration_payloads.files.totals import add_up
from support.audit import audited
from support.batch_client import BatchClient


def _totals(client: BatchClient, batch_id: str) -> dict[str, Any]:
    answer = client.supplier.get(f"/batches/{batch_id}/control-totals/")
    assert answer.status_code == 200
    return dict(msgspec.json.decode(answer.data))


def _put(client: BatchClient, batch_id: str, body: Any) -> Any:
    path = f"/batches/{batch_id}/control-totals/"
    if isinstance(body, bytes):
        return client.supplier.put(path, data=body, headers={"Content-Type": "application/json"})
    return client.supplier.put(path, body)


def _given(totals: dict[str, Any]) -> dict[str, Any]:
    """Return control totals that agree with a file."""
    file = {it["measure"]: it["file"] for it in totals["totals"]}
    kinds = [name.removeprefix("number of ") for name in file if name.startswith("number of ")]
    return {
        "accounts": file["accounts"],
        "statements": file["statements"],
        "ledger_balances": {
            name.removeprefix("balance of "): str(value)
            for name, value in file.items()
            if name.startswith("balance of ")
        },
        "transactions": {
            kind: {"count": file[f"number of {kind}"], "sum": str(file[f"amount of {kind}"])}
            for kind in kinds
        },
    }


def test_totals_that_agree_with_the_file_are_said_to_agree(batches: BatchClient) -> None:
    batch_id = batches.start([*batches.supplier.accounts(5), b"{"], "validate")
    file = _totals(batches, batch_id)
    assert (file["control_totals"], file["differing"], file["unreadable_lines"]) == (None, None, 1)
    assert {(it["given"], it["difference"]) for it in file["totals"]} == {(None, None)}
    assert batches.get(batch_id)["control_totals_differing"] is None
    given = _given(file)
    answer = _put(batches, batch_id, given).json
    assert answer == _totals(batches, batch_id)
    assert (answer["differing"], answer["control_totals"]) == (0, given)
    assert (
        answer["as_given"] is batches.get(batch_id)["control_totals_as_given"] is False
    )  # a line is no JSON
    assert {it["difference"] for it in answer["totals"]} == {0}
    assert batches.get(batch_id)["control_totals_differing"] == 0


def test_what_is_left_out_is_not_compared_and_a_code_or_type_that_is_absent_counts_as_zero(
    batches: BatchClient,
) -> None:
    batch_id = batches.start(batches.supplier.accounts(3), "validate")
    answer = _put(batches, batch_id, {"ledger_balances": {"WATER": "1.50"}}).json
    found = {it["measure"]: (it["given"], it["difference"]) for it in answer["totals"]}
    assert found["accounts"] == found["statements"] == found["number of PAYMENT"] == (None, None)
    assert found["balance of WATER"] == (1.5, -1.5)
    assert found["balance of ENERGY_LEDGER"][0] == 0
    replaced = _put(batches, batch_id, {"accounts": 3}).json
    assert (replaced["control_totals"], replaced["differing"]) == ({"accounts": 3}, 0)
    assert (answer["as_given"], replaced["as_given"]) == (False, True)


def test_whatever_check_adds_up_can_be_given(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(4)
    for account, code, amount in zip(
        accounts, ("E", " E ", "", "\ufeff E"), ("0.12345678901234", 9e13, "1e3", "-0"), strict=True
    ):
        account["ledgers"][0] |= {"ledger_code": code, "ledger_balance": amount}
    batch_id = batches.start(accounts, "validate")
    given = add_up(msgspec.json.encode(it) for it in accounts).control_totals()
    assert given["ledger_balances"] == {"": "1000", " E ": "90000000000000.0", "E": "0.12345678901234"}
    answer = _put(batches, batch_id, given)
    assert (answer.status_code, answer.json["differing"]) == (200, 0), answer.text


def test_faults_are_400_and_keep_what_was_given(batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(1), "validate")
    codes = {str(it): 1 for it in range(100)}
    assert _put(batches, batch_id, {"accounts": 0, "ledger_balances": codes}).status_code == 200
    _put(batches, batch_id, {"accounts": 1})
    for body, code in (
        ({"acounts": 1}, "unknown_field"),
        ({"accounts": -1}, "out_of_range"),
        ({"ledger_balances": codes | {"100": 1}}, "too_many_items"),
        (b'{"ledger_balances": {"A": 1e40}}', "out_of_range"),
        ({"ledger_balances": {"A\n": 1}}, "invalid"),
        (b'{"accounts": 1, "accounts": 1}', "parse_error"),
        (b'{"accounts": NaN}', "parse_error"),
        (b'{"ledger_balances": {"A": 1e400}}', "number_too_long"),
    ):
        answer = _put(batches, batch_id, body)
        assert (answer.status_code, answer.json["errors"][0]["code"]) == (400, code)
    assert _totals(batches, batch_id)["control_totals"] == {"accounts": 1}


def test_only_a_file_of_accounts_has_totals(batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account], "stage")
    pending = (batches.post(None, source="pending").json or {})["batch_id"]
    notes = batches.start([b"{}"], "validate", kind="notes")
    for batch_id in (pending, notes):
        assert _totals(batches, batch_id)["totals"] == []
        answer = _put(batches, batch_id, {"accounts": 1})
        assert (answer.status_code, answer.json["code"]) == (400, "batch_state_conflict")


def test_who_gave_control_totals_is_in_the_audit(batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(1), "validate")
    _put(batches, batch_id, {"accounts": 2})
    (entry,) = audited(batches.supplier.Session, subject=batch_id)
    assert (entry.action, entry.actor_kind) == ("batch.control_totals_set", "api_key")
    assert entry.details == {"differing": 1, "as_given": False}

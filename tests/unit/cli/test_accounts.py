"""`migration-service accounts`: an account is shown, skipped, unskipped and erased."""

import json
from pathlib import Path

from migration_service.services.audit.trail import TrailFilter, stream_trail
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.commands import Run
from support.supplier_client import SupplierClient


def test_the_whole_account_is_shown(
    run: Run, supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    account = next(it for it in supplier.accounts(10) if it.get("customers") and it.get("statements"))
    account["billing_postcode"] = "nowhere"
    number = account["external_account_number"]
    supplier.stage(account)
    supplier.process(number)
    perform_attempt(worker_resources.Session, supplier.current_attempt(number))

    shown = json.loads(run("accounts", "show", supplier.code, number, "--json").stdout)
    assert shown["import"]["state"] == "IMPORTED"
    assert [warning["code"] for warning in shown["import"]["warnings"]] == ["invalid_postcode"]
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["SUCCEEDED"]
    assert shown["account"]["customers"][0]["family_name"] == account["customers"][0]["family_name"]
    assert shown["account"]["service_account_number"] == shown["import"]["service_account_number"]
    for parts, name in (
        ("statements", "number"),
        ("supply_addresses", "supply_address1"),
        ("ledgers", "ledger_code"),
    ):
        assert [it[name] for it in shown["account"][parts]] == [it[name] for it in account[parts]]

    text = run("accounts", "show", supplier.code, number).stdout
    for value in (account["customers"][0]["family_name"], "SUCCEEDED", "invalid_postcode", "ENERGY_LEDGER"):
        assert value in text


def test_an_account_is_skipped_and_unskipped_and_wrong_requests_are_explained(
    run: Run, supplier: SupplierClient
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    missing = run("accounts", "unskip", supplier.code, number)
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "not staged" in missing.stderr
    supplier.stage(account)
    assert run("accounts", "unskip", supplier.code, number).exit_code == 0  # there is nothing to do
    because = ("--reason", "Moves later", "--by", "Ada")
    assert run("accounts", "skip", supplier.code, number, *because).exit_code == 0
    again = run("accounts", "skip", supplier.code, number, *because, "--json")
    assert json.loads(again.stdout)["state"] == "SKIPPED"
    assert supplier.stage(account).status_code == 400
    assert run("accounts", "unskip", supplier.code, number).exit_code == 0
    assert supplier.stage(account).status_code == 200
    with supplier.Session() as session:
        told = stream_trail(
            session, TrailFilter(organisation=supplier.organisation, action="account.skipped")
        )
        told_of_supplier = {"staged": 1, "not_staged": 0, "because": "Moves later", "by": "Ada"}
        assert told_of_supplier in [it["details"] for it in told]
    assert "'NOBODY' does not exist" in run("accounts", "show", "NOBODY", number).stderr


def test_an_account_that_was_only_refused_is_shown_with_its_lines(
    run: Run, supplier: SupplierClient, batches: BatchClient
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    batch_id = batches.run([account | {"customers": "nobody"}])["batch_id"]
    shown = json.loads(run("accounts", "show", supplier.code, number, "--json").stdout)
    assert (shown["import"]["state"], shown["attempts"], shown["account"]) == (None, [], None)
    (line,) = shown["batch_lines"]
    assert (line["batch_id"], line["line_number"], line["status"]) == (batch_id, 1, "FAILED")
    assert line["errors"][0]["attr"] == "customers"
    text = run("accounts", "show", supplier.code, number).stdout
    for value in (batch_id, "Nothing is staged", "attr: customers", "line_number: 1"):
        assert value in text
    nothing = run("accounts", "show", supplier.code, "unknown")
    assert "no stored batch has a line" in nothing.stderr
    assert nothing.exit_code == 1
    with supplier.Session() as session:
        wanted = TrailFilter(organisation=supplier.organisation, action="account.read")
        read = [(it["subject_kind"], it["subject"], it["details"]) for it in stream_trail(session, wanted)]
    assert read == [("import_supplier", supplier.code, {"not_staged": 1})] * 2


def test_numbers_from_a_file_are_skipped_before_they_are_staged(
    run: Run, supplier: SupplierClient, tmp_path: Path
) -> None:
    accounts = supplier.accounts(3)
    numbers = [account["external_account_number"] for account in accounts]
    file = tmp_path / "numbers.txt"
    file.write_text("\n".join([numbers[0], "", f"  {numbers[1]}  ", numbers[0]]))
    because = ("--reason", "Moves later")
    done = run("accounts", "skip", supplier.code, numbers[2], "--file", str(file), "--json", *because)
    listed = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(it["external_account_number"] for it in listed) == sorted(numbers)
    assert {it["state"] for it in listed} == {"SKIPPED"}
    with supplier.Session() as session:
        told = stream_trail(
            session, TrailFilter(organisation=supplier.organisation, action="account.skipped")
        )
        assert [(it["subject"], it["details"]) for it in told] == [
            (supplier.code, {"not_staged": 3, "because": "Moves later"})
        ]
    assert [supplier.stage(account).status_code for account in accounts] == [400] * 3
    shown = json.loads(run("accounts", "show", supplier.code, numbers[0], "--json").stdout)
    assert shown["import"]["state"] == "SKIPPED"
    put_back = run("accounts", "unskip", supplier.code, "--file", str(file), "--json")
    assert {json.loads(line)["state"] for line in put_back.stdout.splitlines()} == {None}
    assert [supplier.stage(account).status_code for account in accounts] == [201, 201, 400]
    assert run("accounts", "skip", supplier.code, *because).exit_code == 2
    assert "--reason" in run("accounts", "skip", supplier.code, numbers[0]).stderr
    alike = run("accounts", "skip", supplier.code, "\uff11\uff12", *because)  # would never be found
    assert "send '1' instead" in alike.stderr
    assert alike.exit_code == 1


def test_an_account_is_erased_only_with_a_reason_and_a_confirmation(
    run: Run, supplier: SupplierClient
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)
    assert run("accounts", "erase", supplier.code, number).exit_code == 2  # no reason
    refused = run("accounts", "erase", supplier.code, number, "--reason", "Request 7")
    assert refused.exit_code == 1  # no answer
    assert supplier.status(number).status_code == 200
    done = run("accounts", "erase", supplier.code, number, "--reason", "Request 7", "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["payload"] is True
    assert supplier.status(number).status_code == 404
    unknown = run("accounts", "erase", supplier.code, "none such", "--reason", "Request 7", "--yes")
    assert unknown.exit_code == 1
    assert "Nothing is known of account 'none such'" in unknown.stderr

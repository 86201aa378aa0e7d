"""`doctor --after-failover` names what clients were answered and the database lacks, and nothing else."""

import json
from pathlib import Path
from typing import Any

from werkzeug.test import TestResponse

from support.commands import Run
from support.supplier_client import API, SupplierClient

STAGE = f"{API}/account-import-process/create-or-update/"
PROCESS = f"{API}/account-import-process/process/"


def line(route: str, status: int, request_id: str | None, **account: str) -> dict[str, Any]:
    """Return a line of an access log, or with an account one of a client's journal."""
    members = {"method": "POST", "route": route, "status": status, "request_id": request_id}
    return {"timestamp": "2027-03-01T10:00:00+00:00", **members, **account}


def line_of(answer: TestResponse, **account: str) -> dict[str, Any]:
    """Return the line of a request that was really answered."""
    return line(answer.request.path, answer.status_code, answer.headers["X-Request-ID"], **account)


def ask(run: Run, folder: Path, *lines: dict[str, Any]) -> tuple[int, list[Any]]:
    """Return the exit status of the command, and what it names."""
    file = folder / "answers"
    file.write_text("a line of another program\n" + "\n".join(map(json.dumps, lines)))
    result = run("doctor", "--json", "--after-failover", str(file))
    return result.exit_code, [json.loads(found) for found in result.stdout.splitlines()]


def test_what_is_there_is_not_named(run: Run, supplier: SupplierClient, tmp_path: Path) -> None:
    payload, other = supplier.accounts(2)
    number = str(payload["external_account_number"])
    account = {"import_supplier": supplier.code, "external_account_number": number}
    changed = payload | {"billing_address1": "Another street"}
    staged = [supplier.stage(it) for it in (payload, changed)]
    lines = [line_of(answer, **account) for answer in staged]
    lines += [line_of(supplier.process(number)), line_of(supplier.validate(other))]
    # The payload of the first one was replaced.
    lines += [line_of(answer) for answer in staged]
    refused = [line(STAGE, 400, "refused"), line(PROCESS, 503, "away"), line(f"{API}/batches/", 429, "later")]
    unread = [line("/v1/graphql/", 200, "login"), line(STAGE, 200, "again") | {"result": "UNCHANGED"}]
    assert ask(run, tmp_path, *lines, *refused, *unread) == (0, [])


def test_what_only_the_old_primary_had_is_named(run: Run, supplier: SupplierClient, tmp_path: Path) -> None:
    (payload,) = supplier.accounts(1)
    known = {
        "import_supplier": supplier.code,
        "external_account_number": str(payload["external_account_number"]),
    }
    staged = line_of(supplier.stage(payload), **known)
    gone = {"import_supplier": supplier.code, "external_account_number": "GONE"}
    status, found = ask(
        run,
        tmp_path,
        staged,
        line(STAGE, 200, "replaced", **known) | {"timestamp": "2027-03-01T10:00:01+00:00"},
        line(STAGE, 201, "first", **gone),
        line(PROCESS, 202, "accepted"),
        line(f"{API}/batches/", 202, "book"),
    )
    assert status == 1
    assert {(it["request_id"], it["acknowledged"], it["found"]) for it in found} == {
        ("first", "staged", "no such account"),
        ("replaced", "staged", "an earlier version"),
        ("accepted", f"{PROCESS} answered 202", "nothing of this request"),
        ("book", f"{API}/batches/ answered 202", "nothing of this request"),
    }
    told = line(PROCESS, 201, "created", service_account_number="A-1", **known)
    status, found = ask(run, tmp_path, staged, told)
    assert [(it["acknowledged"], it["found"]) for it in found] == [("created as A-1", "the account, PENDING")]
    assert found[0]["external_account_number"] == known["external_account_number"]


def test_people_read_how_many_acknowledgements_were_compared(
    run: Run, supplier: SupplierClient, tmp_path: Path
) -> None:
    file = tmp_path / "access.log"
    file.write_text(json.dumps(line(PROCESS, 201, "gone")))
    result = run("doctor", "--after-failover", str(file))
    assert result.exit_code == 1
    assert result.stdout.endswith("1 acknowledgements, of which the database lacks 1.\n")

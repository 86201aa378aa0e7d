"""Retrying what a filter shows: the page says how many lines, and touches just those."""

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from batch_client import BatchClient, counts
from console_client import ConsoleClient, LogIn
from migration_service.models import AuditEntry
from migration_service.services.access.operators import OperatorRole


def test_a_filter_that_nothing_can_match_is_refused(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    batch_id = batches.run(batches.supplier.accounts(1))["batch_id"]
    for path in ("retry/?code=%00", "retry/?code=required&path=%00", "codes/required/?path=%00"):
        answer = administrator.get(f"/batches/{batch_id}/{path}")
        assert answer.status_code == 400, (path, answer.text)
        assert "a value that is not possible" in answer.text


def test_the_lines_of_a_code_and_a_path_are_retried(
    administrator: ConsoleClient, log_in: LogIn, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    accounts = batches.supplier.accounts(4)
    for account, field in zip(accounts, ("landline", "mobile", "mobile"), strict=False):
        account["customers"] = [{"family_name": "Jansen", field: "not a number"}]
    batch_id = batches.run(accounts)["batch_id"]
    code = f"/batches/{batch_id}/codes/invalid_phone_number/"
    assert "Retry these 3 failed lines" in administrator.see(code)
    page = administrator.see(f"{code}?path=customers.*.mobile")
    assert "Retry these 2 failed lines" in page
    assert "failed lines" not in log_in(OperatorRole.READ).see(code)

    form = f"/batches/{batch_id}/retry/?code=invalid_phone_number&path=customers.*.mobile"
    some = administrator.see(form)
    assert "0 lines that may pass now" in some
    assert "Also retry 2 lines that failed for their content" in some
    assert "<button" not in some[some.index("<h1") :]
    everything = administrator.see(f"{form}&everything=1")
    assert "2 lines will be retried, unchanged." in everything
    assert "customers.*.mobile" in everything

    answer = administrator.send(f"{form}&everything=1")
    assert answer.location == f"/console/batches/{batch_id}/"
    assert counts(batches.get(batch_id)) == {"IMPORTED": 1, "FAILED": 1, "PENDING": 2}
    wanted = select(AuditEntry).where(AuditEntry.action == "batch.retried", AuditEntry.subject == batch_id)
    with sessions() as session:
        (entry,) = session.scalars(wanted)
    assert entry.details == {"lines": 2, "code": "invalid_phone_number", "path": "customers.*.mobile"}

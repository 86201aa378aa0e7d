"""What is wrong with a batch, what is masked of it, and retrying what a filter shows."""

from html import unescape
from io import BytesIO
from zipfile import ZipFile

from sqlalchemy import func, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch, ImportSupplier
from migration_service.services.access.operators import OperatorRole
from support.batch_client import BatchClient, counts
from support.console_client import ConsoleClient, LogIn, text_of


def test_the_sentence_of_an_error_is_shown_unless_it_may_repeat_what_is_personal(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    account["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    account["unknown_occupier"] = "maybe"
    batch_id = batches.run([account], "validate")["batch_id"]
    ((first, second),) = (it["errors"] for it in batches.results(batch_id))
    personal, other = sorted((first, second), key=lambda it: str(it["attr"]))
    assert (personal["attr"], other["attr"]) == ("customers.0.landline", "unknown_occupier")
    path = f"/batches/{batch_id}/lines/1/"
    for shown in (False, True):
        page = administrator.see(path)
        assert page.count('<li class="error">') == 2
        faults = unescape(text_of(page[page.index('<ul class="faults">') : page.index("As it was sent")]))
        assert other["detail"] in faults
        assert (personal["detail"] in faults) is shown
        administrator.send(f"{path}reveal/", page=path)


def test_a_filter_that_nothing_can_match_is_refused(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    batch_id = batches.run(batches.supplier.accounts(1))["batch_id"]
    for path in ("retry/?code=%00", "retry/?code=required&path=%00", "codes/required/?path=%00"):
        answer = administrator.get(f"/batches/{batch_id}/{path}")
        assert answer.status_code == 400, (path, answer.text)
        assert "an impossible value" in answer.text


def test_one_line_is_handed_back_and_retried(
    administrator: ConsoleClient, log_in: LogIn, batches: BatchClient
) -> None:
    accounts = batches.supplier.accounts(3)
    for account in accounts[:2]:
        account["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    batch_id = batches.run(accounts)["batch_id"]
    page, form = f"/batches/{batch_id}/lines/2/", f"/batches/{batch_id}/retry/?line=2"
    file = f"/batches/{batch_id}/hand-back.zip?line=2"
    number = accounts[1]["external_account_number"]
    account_page = f"/suppliers/{batches.supplier.code}/accounts/{number}/"
    for shown in (page, account_page):
        assert f"/console{form}" in administrator.see(shown)
    assert f"/console{file}" in administrator.see(page)
    assert "retry" not in administrator.see(f"/batches/{batch_id}/lines/3/")
    assert "retry" not in log_in(OperatorRole.READ).see(page)

    with ZipFile(BytesIO(administrator.get(file).get_data())) as archive:
        (line,) = archive.read("failed-lines.ndjson").splitlines()
    assert number.encode() in line

    assert "Also retry 1 line that failed because of its content" in administrator.see(form)
    assert "1 line will be retried, unchanged." in administrator.see(f"{form}&everything=1")
    answer = administrator.send(f"{form}&everything=1")
    assert answer.location == f"/console{page}"
    assert counts(batches.get(batch_id)) == {"IMPORTED": 1, "FAILED": 1, "PENDING": 1}
    assert "PENDING" in administrator.see(page)
    nothing = administrator.see(f"/batches/{batch_id}/retry/?everything=1&line={10**30}")
    assert "0 lines will be retried" in nothing


def _make_pass(sessions: sessionmaker[Session]) -> None:
    """Give the suppliers another profile: what failed may pass under it."""
    with sessions.begin() as session:
        session.execute(update(ImportSupplier).values(profile="strict"))


def test_lines_that_were_removed_are_neither_offered_nor_read(
    administrator: ConsoleClient, batches: BatchClient, broken_batch: str, sessions: sessionmaker[Session]
) -> None:
    batch, other = f"/batches/{broken_batch}/", batches.run(batches.supplier.accounts(1), "validate")
    readings = (
        f"{batch}codes/invalid_phone_number/",
        f"{batch}hand-back.zip",
        f"{batch}results.csv",
        f"/batches/{other['batch_id']}/compare/?before={broken_batch}",
    )
    _make_pass(sessions)
    chooser = f"/batches/{other['batch_id']}/compare/"
    assert broken_batch in administrator.see(chooser)
    assert "Retry 2 lines" in administrator.see(batch)
    for path in readings:
        assert administrator.get(path).get_data()
    with sessions.begin() as session:
        session.execute(update(Batch).where(Batch.id == broken_batch).values(lines_removed_at=func.now()))
    assert broken_batch not in administrator.see(chooser)
    assert "Retry" not in administrator.see(batch)
    for path in readings:
        answer = administrator.get(path)
        assert answer.status_code == 400, path
        assert "The lines of the batch are no longer kept." in answer.text

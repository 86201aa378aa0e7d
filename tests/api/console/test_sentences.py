"""The first sentence of a page answers its question, and codes are explained in the reader's language."""

from typing import Any

from migration_service.services.access.operators import OperatorRole
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, LogIn, text_of
from support.imported_account import ImportedAccount

_DUTCH = {"Accept-Language": "nl"}


def test_an_operator_counts_only_the_batches_of_their_organisations(
    log_in: LogIn, batches: BatchClient
) -> None:
    batches.run(batches.supplier.accounts(1))
    mine = log_in(OperatorRole.READ, batches.supplier.organisation)
    assert mine.lead("/batches/") == "There is 1 batch. None waits for somebody."


def test_codes_are_explained_in_dutch_on_dutch_pages(administrator: ConsoleClient, broken_batch: str) -> None:
    meaning = "Een waarde is geen geldig telefoonnummer: een Nederlands nummer"
    remedy = "Verbeter het nummer, of stuur een lege tekst."
    for path in (
        f"/batches/{broken_batch}/",
        f"/batches/{broken_batch}/codes/invalid_phone_number/",
        f"/batches/{broken_batch}/lines/2/",
    ):
        text = administrator.get(path, headers=_DUTCH).text
        assert meaning in text, path
        assert (remedy in text) == (path.count("/") > 3), path
        assert "Without a country code" not in text, path


def test_states_have_words_on_dutch_pages_and_a_reason_is_a_sentence(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    accounts: list[Any] = [{"external_account_number": str(number)} for number in range(300)]
    batch_id = batches.run(accounts, stop_after_errors="50")["batch_id"]
    page = text_of(administrator.see(f"/batches/{batch_id}/"))
    assert "It is paused because it has too many errors." in page
    assert "PAUSED gepauzeerd" not in page
    administrator.client.set_cookie("console_language", "nl", path="/console")
    page = text_of(administrator.see(f"/batches/{batch_id}/"))
    assert "PAUSED gepauzeerd" in page
    assert "FAILED mislukt" in page
    assert "Gepauzeerd vanwege te veel fouten." in page


def test_a_batch_of_added_data_says_that_it_cannot_be_undone(
    administrator: ConsoleClient, account: ImportedAccount, batches: BatchClient
) -> None:
    batch_id = batches.run([account.pair | {"notes": [{"body": "Called."}]}], kind="notes")["batch_id"]
    assert batches.get(batch_id)["counts"]["ADDED"] == 1
    page = administrator.see(f"/batches/{batch_id}/")
    assert "Added data cannot be undone as a batch" in page
    assert "/undo/" not in page
    refused = administrator.get(f"/batches/{batch_id}/undo/")
    assert refused.status_code == 400
    assert "Only batches of accounts are undone." in refused.text

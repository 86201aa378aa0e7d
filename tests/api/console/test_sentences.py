"""The first sentence of a page answers its question, and codes are explained in the reader's language."""

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.access.api_keys import KeyLimits, issue_api_key
from migration_service.services.access.operators import OperatorRole
from migration_service.services.setup.teams import create_operations_team
from migration_service.services.undo.execution import Progress, revert_piece
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, LogIn, text_of

_LEAD = re.compile(r'<p class="lead"[^>]*>(.*?)</p>', re.DOTALL)
_DUTCH = {"Accept-Language": "nl"}


def _lead(client: ConsoleClient, path: str, **headers: str) -> str:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    (found,) = _LEAD.findall(answer.text)
    return " ".join(html.unescape(re.sub("<[^>]+>", "", found)).split())


def test_the_list_of_batches_says_how_many_go_on_only_with_somebody(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    path = f"/batches/?supplier={batches.supplier.code}"
    assert _lead(administrator, path) == "There is no such batch."
    first, second, third = batches.supplier.accounts(3)
    batches.run([first])
    assert _lead(administrator, path) == "There is 1 batch. None waits for somebody."
    batches.start([second])
    administrator.send(f"/batches/{batches.start([third])}/pause/")
    assert _lead(administrator, path) == (
        "There are 3 batches. 1 runs, or waits for its supplier. 1 continues only if it is resumed by hand."
    )
    assert _lead(administrator, f"{path}&state=RUNNING") == (
        "There is 1 batch. 1 runs, or waits for its supplier. None waits for somebody."
    )
    assert _lead(administrator, path, **_DUTCH) == (
        "Er zijn 3 batches. 1 loopt, of wacht op de leverancier. 1 gaat pas verder als iemand die hervat."
    )


def test_an_operator_counts_only_the_batches_of_their_organisations(
    log_in: LogIn, batches: BatchClient
) -> None:
    batches.run(batches.supplier.accounts(1))
    mine = log_in(OperatorRole.READ, batches.supplier.organisation)
    assert _lead(mine, "/batches/") == "There is 1 batch. None waits for somebody."


def test_the_undos_of_a_supplier_say_whether_one_runs(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    path = f"/undos/?supplier={batches.supplier.code}"
    assert _lead(administrator, path) == "Nothing has been undone yet."
    report = batches.run(batches.supplier.accounts(2))
    answer = administrator.send(f"/batches/{report['batch_id']}/undo/", {"reason": "A trial."})
    assert _lead(administrator, path).startswith("1 undo runs now. The newest of these has 2 accounts")
    progress = Progress.WORKED
    while progress is Progress.WORKED:
        with batches.resources.Session.begin() as session:
            progress = revert_piece(session, UUID(answer.location.split("/")[-2]))
    assert _lead(administrator, path).startswith("No undo runs now.")


def test_the_pages_of_access_say_how_many_of_each_there_are(
    administrator: ConsoleClient, log_in: LogIn, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    assert _lead(administrator, "/setup/keys/").startswith("1 API key is valid.")
    month = datetime.now(UTC) + timedelta(days=30)
    with sessions.begin() as session:
        name = batches.supplier.organisation
        for ends in (month - timedelta(hours=1), month + timedelta(hours=1)):
            issue_api_key(session, organisation_name=name, limits=KeyLimits(expires_at=ends))
        create_operations_team(session, "Its own", organisation_name=name)
    log_in(OperatorRole.READ)
    for path, sentence in (
        ("keys", "3 API keys are valid. 1 ends within 30 days. 2 were never used."),
        ("organisations", "1 organisation, with 1 import supplier."),
        ("teams", "Accounts can be linked to 2 teams. All organisations share 1."),
        ("vendors", "No payment vendor is set up: payment instructions are refused."),
        ("operators", "2 operators are enabled: 1 read, 1 administer."),
    ):
        assert _lead(administrator, f"/setup/{path}/") == sentence


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


def test_what_a_line_says_of_its_error_is_marked_as_english_on_a_dutch_page(
    administrator: ConsoleClient, broken_batch: str
) -> None:
    path = f"/batches/{broken_batch}/lines/6/"
    assert 'lang="en"' in administrator.get(path, headers=_DUTCH).text
    assert 'lang="en"><' not in administrator.see(path)


def test_an_error_is_explained_in_dutch_on_a_dutch_page(administrator: ConsoleClient) -> None:
    path = f"/batches/{uuid4()}/"
    dutch, english = (administrator.get(path, headers={"Accept-Language": it}) for it in ("nl", "en"))
    assert (dutch.status_code, english.status_code) == (404, 404)
    with_code = "<code>batch_not_found</code></p>"
    said = re.findall(r"<p>(.*?) ?" + with_code, english.text, re.DOTALL)
    assert said, english.text
    assert f'<span class="text-body-secondary" lang="en">{said[0]}</span> {with_code}' in dutch.text
    assert "<p>De batch bestaat niet" in dutch.text


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
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account])
    number = account["external_account_number"]
    note = {
        "import_supplier": batches.supplier.code,
        "external_account_number": number,
        "notes": [{"body": "Called."}],
    }
    batch_id = batches.run([note], kind="notes")["batch_id"]
    assert batches.get(batch_id)["counts"]["ADDED"] == 1
    page = administrator.see(f"/batches/{batch_id}/")
    assert "Added data cannot be undone as a batch" in page
    assert "/undo/" not in page
    refused = administrator.get(f"/batches/{batch_id}/undo/")
    assert refused.status_code == 400
    assert "Only batches of accounts are undone." in refused.text

"""The sign-off of a supplier: where each total of all its files is, and the verdict."""

import re

from migration_service.blueprints.console.display import DASH
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of


def _row(page: str, measure: str) -> list[str]:
    """Return the cells of a measure, from what was given to what is unaccounted for."""
    found = re.search(rf'<tr><th scope="row"[^>]*>{measure}</th>(.*?)</tr>', page, re.DOTALL)
    return [text_of(it) for it in re.findall(r"<td.*?>(.*?)</td>", found[1] if found else "", re.DOTALL)]


def test_the_totals_of_all_files_are_added_up_and_what_is_open_is_told(
    batches: BatchClient, administrator: ConsoleClient
) -> None:
    supplier, path = batches.supplier, f"/suppliers/{batches.supplier.code}/sign-off/"
    assert administrator.lead(path) == "Nothing was compared."
    first, second, third, refused = supplier.accounts(4)
    file = batches.run([first, refused | {"customers": [{}]}])["batch_id"]
    batches.run([second, third])
    supplier.put(f"/batches/{file}/control-totals/", {"accounts": 3})
    supplier.reconcile()
    page = administrator.see(path)
    assert _row(page, "accounts") == ["3", "4", "-1", "1", "0", "0", "3", "0"]
    assert "1 item is open. 1 file does not match its control totals." in administrator.lead(path)
    assert re.search(r"btn-primary[^>]*>Reconcile", page)
    number = refused["external_account_number"]
    body = {"external_account_numbers": [number], "reason": "Stays out."}
    assert supplier.post(f"/reconciliation/{supplier.code}/acknowledgements/", body).status_code == 201
    supplier.put(f"/batches/{file}/control-totals/", {"accounts": 2})
    supplier.reconcile()
    page = administrator.see(path)
    assert _row(page, "accounts") == ["2", "4", "0", "1", "1", "0", "3", "0"]
    assert administrator.lead(path) == "Nothing is open, and nothing differs."
    assert re.search(r"btn-primary[^>]*>Go-live", page)


def test_an_account_in_two_files_is_not_counted_as_missing(
    batches: BatchClient, administrator: ConsoleClient
) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account | {"customers": [{}]}])
    batches.run([account])
    batches.supplier.reconcile()
    page = administrator.see(f"/suppliers/{batches.supplier.code}/sign-off/")
    assert _row(page, "accounts")[-1] == DASH
    assert "Accounts are in several files" in page

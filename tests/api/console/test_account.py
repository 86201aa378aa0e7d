"""The page of an account: one timeline of everything, and what is other than it was sent."""

import re
from posixpath import normpath

import pytest

from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of


@pytest.mark.parametrize("number", ["a/b", "77/", "/", ".", "..", "a/skip", "100%", "%2F"])
def test_links_lead_to_an_account_of_any_number(
    administrator: ConsoleClient, batches: BatchClient, number: str
) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.supplier.stage(account | {"external_account_number": number})
    found = administrator.get("/accounts/", query_string={"q": number})
    link = found.location if found.location else _link_within(found.text, batches.supplier.code)
    # A browser leaves out the segments "." and "..", also if they are encoded once.
    read = link.replace("%2E", ".")
    assert normpath(read) == read.rstrip("/")
    page = administrator.see(link.removeprefix("/console"))
    assert f"{link}skip/" in page
    shown = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert shown is not None
    assert number in text_of(shown[1])


def _link_within(page: str, code: str) -> str:
    found = re.search(rf'href="([^"]*/suppliers/{code}/accounts/[^"]*)"', page)
    assert found is not None
    return found[1]

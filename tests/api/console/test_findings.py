"""What is wrong with a batch: its codes with their values, its lines, and what is masked of them."""

from html import unescape

from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of


def test_the_page_of_a_code_has_its_commonest_values_unless_they_are_about_people(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    accounts = batches.supplier.accounts(2)
    for account in accounts:
        account["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
        account["unknown_occupier"] = "maybe"
    batch = f"/batches/{batches.run(accounts, 'validate')['batch_id']}/"
    for code, path, shown in (
        ("invalid", "unknown_occupier", True),
        ("invalid", "", False),
        ("invalid_phone_number", "customers.*.landline", False),
    ):
        page = administrator.see(f"{batch}codes/{code}/?path={path}")
        assert ("Commonest values" in page) is shown
    assert "maybe" in administrator.see(f"{batch}codes/invalid/?path=unknown_occupier")
    assert administrator.get(f"{batch}codes/required/").status_code == 404
    for number, status in (("2", 200), ("3", 404)):
        assert administrator.get(f"{batch}lines/{number}/").status_code == status


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


def test_a_line_that_is_no_json_is_shown_as_text_if_somebody_asks(
    administrator: ConsoleClient, broken_batch: str
) -> None:
    path = f"/batches/{broken_batch}/lines/6/"
    page = administrator.see(path)
    assert "The line is no JSON. Its text may have personal data." in page
    assert "{no json" not in page
    administrator.send(f"{path}reveal/", page=path)
    assert "{no json" in administrator.see(path)


def test_lines_are_listed_by_status(administrator: ConsoleClient, broken_batch: str) -> None:
    for query, numbers in (
        ("", [1, 2, 3, 4, 5, 6]),
        ("?status=FAILED", [2, 6]),
        ("?status=nothing", [1, 2, 3, 4, 5, 6]),
        ("?cursor=2", [3, 4, 5, 6]),
    ):
        page = administrator.see(f"/batches/{broken_batch}/lines/{query}")
        assert [it for it in range(1, 7) if f"/batches/{broken_batch}/lines/{it}/" in page] == numbers

"""Errors are pages: what happened, in the reader's language, and what to do next."""

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from batch_client import BatchClient
from console_client import ConsoleClient, LogIn, text_of
from migration_service.blueprints.console import access
from migration_service.services.access.operators import OperatorRole


def _main(page: str) -> str:
    return text_of(page[page.index("<main") : page.index("</main>")])


@pytest.mark.parametrize("error", [OperationalError("SELECT", {}, Exception()), PoolTimeoutError()])
def test_a_database_that_does_not_answer_is_said_to_whoever_was_logged_in(
    administrator: ConsoleClient, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_arguments: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr(access, "find_operator_session", fail)
    answer = administrator.get("/work/")
    assert answer.status_code == 503
    sentence = "The database does not answer. Try again in a moment."
    assert _main(answer.text) == f"Not available {sentence} Go to the overview"
    part = administrator.get("/work/?part=1")
    assert part.status_code == 503
    assert sentence in part.text
    assert "<main" not in part.text


def test_what_is_not_allowed_is_said_with_the_role_that_it_needs(log_in: LogIn, batches: BatchClient) -> None:
    bound = log_in(OperatorRole.ADMINISTER, batches.supplier.organisation)
    answer = bound.get("/setup/operators/new/")
    assert answer.status_code == 403
    whole = "This concerns the whole service: it needs the role administer, bound to no organisation."
    assert _main(answer.text) == f"Not allowed {whole} permission_denied Go to the overview"
    answer = log_in(OperatorRole.READ).get("/setup/keys/new/")
    assert _main(answer.text) == (
        "Not allowed This needs the role administer. permission_denied Go to the overview"
    )


def test_what_does_not_exist_is_said_with_its_code_and_in_dutch(administrator: ConsoleClient) -> None:
    nothing = administrator.get("/nowhere/")
    assert nothing.status_code == 404
    assert _main(nothing.text) == "Not found There is nothing at this address. Go to the overview"
    wrong = administrator.get("/suppliers/NONE/", headers={"Accept-Language": "nl"})
    assert wrong.status_code == 404
    assert _main(wrong.text) == (
        "Niet gevonden De importleverancier bestaat niet of is van een andere organisatie. Import supplier "
        "'NONE' does not exist, or belongs to another organisation. import_supplier_not_found "
        "Naar het overzicht"
    )


def test_a_value_that_the_database_cannot_have_is_the_clients_mistake(administrator: ConsoleClient) -> None:
    answer = administrator.get("/batches/?supplier=%00")
    assert answer.status_code == 400
    sentence = "The address or the form has a value that is not possible."
    assert _main(answer.text) == f"That did not work {sentence} Go to the overview"

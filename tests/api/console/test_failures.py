"""Errors are pages: what happened, in the reader's language, and what to do next."""

import logging

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from migration_service.blueprints.console import access
from migration_service.errors import TooManyUploadsError
from migration_service.services.access.operators import OperatorRole
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, LogIn, text_of


def _main(page: str) -> str:
    return text_of(page[page.index("<main") : page.index("</main>")])


def _fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr(access, "find_operator_session", fail)


@pytest.mark.parametrize("error", [OperationalError("SELECT", {}, Exception()), PoolTimeoutError()])
def test_a_database_that_does_not_answer_is_said_to_whoever_was_logged_in(
    administrator: ConsoleClient, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    _fail_with(error, monkeypatch)
    answer = administrator.get("/work/")
    assert answer.status_code == 503
    sentence = "The database does not answer. Try again in a moment."
    assert _main(answer.text) == f"Not available {sentence} Go to the overview"
    part = administrator.get("/work/?part=1")
    assert part.status_code == 503
    assert sentence in part.text
    assert "<main" not in part.text


def test_what_nobody_expected_is_a_page_too_and_is_in_the_log(
    administrator: ConsoleClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _fail_with(ZeroDivisionError("of the test"), monkeypatch)
    with pytest.raises(ZeroDivisionError, match="of the test"):  # tests see it themselves
        administrator.get("/work/")
    console = administrator.app.extensions["migration_service_console"]
    monkeypatch.setattr(console, "testing", False)
    caplog.clear()
    answer = administrator.get("/work/")
    assert answer.status_code == 500
    sentence = "An unexpected error. Nothing was changed. The log says more."
    assert _main(answer.text) == f"Something went wrong {sentence} Go to the overview"
    (logged,) = (it for it in caplog.records if it.levelno == logging.ERROR)
    assert logged.exc_info
    assert logged.exc_info[0] is ZeroDivisionError


def test_what_is_too_much_at_once_is_said(
    administrator: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_with(TooManyUploadsError(), monkeypatch)
    answer = administrator.get("/work/")
    assert answer.status_code == 429
    assert _main(answer.text).startswith("Too many requests ")


def test_a_form_that_is_too_large_or_no_form_is_the_clients_mistake(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    form = administrator.tokens("/limit/")
    for size, status in ((999_000, 400), (1_000_001, 413)):
        assert administrator.post("/limit/", {**form, "limit": "1" * size}).status_code == status
    path = f"/console/suppliers/{batches.supplier.code}/upload/"
    for kind in ("text/plain; boundary=b", "multipart/form-data", None):
        answer = administrator.client.post(path, data=b"{}", content_type=kind)
        assert answer.status_code == 400
        said = "That did not work Expected a form with a file. Go to the overview"
        assert _main(answer.text) == said


def test_what_is_not_allowed_is_said_with_the_role_that_it_needs(log_in: LogIn, batches: BatchClient) -> None:
    bound = log_in(OperatorRole.ADMINISTER, batches.supplier.organisation)
    answer = bound.get("/setup/operators/new/")
    assert answer.status_code == 403
    whole = "This concerns the whole service. It needs the role administer and no binding to an organisation."
    assert _main(answer.text) == f"Not allowed {whole} permission_denied Go to the overview"
    answer = log_in(OperatorRole.READ).get("/setup/keys/new/")
    assert _main(answer.text) == (
        "Not allowed This needs the role administer. permission_denied Go to the overview"
    )


def test_what_does_not_exist_is_said_with_its_code_and_in_dutch(administrator: ConsoleClient) -> None:
    for path in ("/nowhere/", "/batches//"):
        nothing = administrator.get(path)
        assert nothing.status_code == 404
        assert _main(nothing.text) == "Not found There is nothing at this address. Go to the overview"
    wrong = administrator.get("/suppliers/NONE/", headers={"Accept-Language": "nl"})
    assert wrong.status_code == 404
    assert _main(wrong.text) == (
        "Niet gevonden De importleverancier bestaat niet of is van een andere organisatie. Import supplier "
        "'NONE' does not exist, or belongs to another organisation. import_supplier_not_found "
        "Naar het overzicht"
    )

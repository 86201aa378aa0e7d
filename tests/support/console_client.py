"""A browser of an operator, without a browser: it keeps cookies, and sends the tokens that forms have."""

import html
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from migration_service.services.access.operators import OperatorRole, create_operator, set_operator_password
from support.described import DescribedClient

PASSWORD = "a password for tests"
_FIELD = re.compile(r'<input[^>]*name="(csrf_token|form_token|next)"[^>]*value="([^"]*)"')
_FIELD_VALUE_LAST = re.compile(r'name="(csrf_token|form_token)" type="hidden" value="([^"]*)"')


def text_of(page: str) -> str:
    """The text of a page or of a part of one, without tags and with single spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def main_of(page: str) -> str:
    """The text of the middle of a page."""
    return text_of(page[page.index("<main") : page.index("</main>")])


def _first(pattern: str, page: str) -> str:
    found = re.search(pattern, page, re.DOTALL)
    assert found, (pattern, page[:2000])
    return text_of(found[1])


def make_operator(sessions: sessionmaker[Session], role: OperatorRole, *organisations: str) -> str:
    """The name of a new operator with the password of the tests, bound to these organisations."""
    name = f"operator {secrets.token_hex(4)}"
    with sessions.begin() as session:
        create_operator(session, name, role, organisations=organisations)
        set_operator_password(session, name, PASSWORD)
    return name


@dataclass
class ConsoleClient:
    """Opens pages and sends forms. Its address is its own, so that nobody's failures count against it."""

    app: Flask
    client: FlaskClient = field(init=False)

    def __post_init__(self) -> None:
        # It reads every answer to its end: a file that is left unread keeps its transaction.
        self.client = DescribedClient(self.app, self.app.response_class, use_cookies=True)
        self.client.environ_base["REMOTE_ADDR"] = (
            f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.{secrets.randbelow(256)}"
        )

    def log_in(self, name: str, password: str = PASSWORD, **fields: str) -> TestResponse:
        """Log in with the form of the page."""
        fields = {"name": name, "password": password, **fields}
        return self.send("/login/", fields)

    def get(self, path: str, **kwargs: Any) -> TestResponse:
        """Open a page of the console."""
        return self.client.get(f"/console{path}", **kwargs)

    def see(self, path: str) -> str:
        """The text of a page, which has to be there."""
        answer = self.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:2000])
        return answer.text

    def lead(self, path: str) -> str:
        """The first sentences of a page, which answer its question."""
        return _first('<p class="lead"[^>]*>(.*?)</p>', self.see(path))

    def act(self, path: str, fields: dict[str, Any] | None = None) -> tuple[str, str]:
        """Send the form of a page. Return where it leads, and what is said there."""
        answer = self.send(path, fields)
        assert answer.status_code == 303, (path, answer.status_code, answer.text)
        location = str(answer.location).removeprefix("/console")
        said = _first(r'<div class="alert alert-success" role="status">(.*?)</div>', self.see(location))
        return location, said

    def send(
        self, path: str, fields: dict[str, Any] | None = None, *, page: str | None = None
    ) -> TestResponse:
        """Open a page, and send its form with these fields."""
        return self.post(path, {**self.tokens(page or path), **(fields or {})})

    def post(self, path: str, fields: dict[str, Any]) -> TestResponse:
        """Send a form as it is."""
        return self.client.post(f"/console{path}", data=fields)

    def upload(self, code: str, file: bytes | None, **fields: Any) -> TestResponse:
        """Send the form of an upload for this supplier. Its file is only checked, unless fields say so."""
        path = f"/suppliers/{code}/upload/"
        form = {**self.tokens(path), "step": "validate", "team": "", "name": "", **fields}
        if file is not None:
            form["file"] = (BytesIO(file), "book.ndjson")
        return self.client.post(f"/console{path}", data=form, content_type="multipart/form-data")

    def tokens(self, page: str) -> dict[str, str]:
        """The hidden fields of the form in the middle of a page."""
        text = self.get(page).text
        main = text[text.index("<main") :]
        found = {**dict(_FIELD.findall(main)), **dict(_FIELD_VALUE_LAST.findall(main))}
        assert "csrf_token" in found or "csrf_token" in text, text[:2000]
        if "csrf_token" not in found:
            found = dict(_FIELD.findall(text)) | found
        return {name: value for name, value in found.items() if name != "next"}


#: Logs in a new operator with a role, bound to the organisations that are named.
LogIn = Callable[..., ConsoleClient]

"""The Python client and the running service."""

import asyncio
import base64
import json
import logging
import re
import subprocess
import sys
import venv
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from documentation.pages import ROOT
from drill.scene import SUPPLIER, TEAM, Scene, numbered_accounts
from migration_service.schemas.events import CATALOGUE
from migration_service_client import AsyncClient, Client, idempotency_key
from migration_service_client.codes import AccountNotFound

_PAGE = ROOT / "docs/suppliers/library.md"
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def client(scene: Scene) -> Iterator[Client]:
    with Client(scene.address.url, scene.address.api_key, patience=60) as client:
        yield client


def test_the_examples_of_the_page_work_in_a_bare_environment(scene: Scene, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    # What the client is allowed to need, and nothing else that the tests have.
    installed = Path(pytest.__file__).parents[1]
    [packages] = environment.glob("lib/python*/site-packages")
    for name in ("click", "msgspec", "pycurl", "pycurl.libs"):
        for source in [*installed.glob(f"{name}.py"), *installed.glob(name), *installed.glob(f"{name}-*")]:
            (packages / source.name).symlink_to(source)
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run([*install, "--target", packages, ROOT / "clients/python"], check=True)
    book = [*numbered_accounts(20, "CP-"), {"import_supplier": SUPPLIER}]
    (tmp_path / "book.ndjson").write_text("".join(json.dumps(it, default=str) + "\n" for it in book))
    # A message as the library of Standard Webhooks signs it.
    secret, moment = "whsec_" + base64.b64encode(b"k" * 32).decode(), datetime.now(UTC)
    body = json.dumps(next(kind.event() for kind in CATALOGUE.values()))
    headers = {
        "webhook-id": "e-1",
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign("e-1", moment, body),
    }
    values: dict[str, Any] = {"ADDRESS": scene.address.url, "API_KEY": scene.address.api_key, "TEAM": TEAM}
    values |= {"SUPPLIER": SUPPLIER, "BODY": body.encode(), "HEADERS": headers, "SECRET": secret}
    blocks = _PYTHON.findall(_PAGE.read_text())
    script = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + "\n".join(blocks)
    # The last line of the book has no number, which the first example would not survive.
    script = script.replace("for line in file]", "for line in file][:20]")
    done = subprocess.run(
        [str(environment / "bin" / "python"), "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^CP-\d+ is A-\w+$", done.stdout, re.MULTILINE)) == 20
    assert "account.created AccountCreated(" in done.stdout
    assert "invalid unknown_occupier" in done.stdout
    assert "21 required external_account_number" in done.stdout
    assert len(list(filter(str.strip, blocks[0].splitlines()))) <= 20


def test_both_clients_do_the_same(scene: Scene, client: Client) -> None:
    account = numbered_accounts(1, "CB-")[0]

    async def create() -> tuple[str, list[str], str]:
        async with AsyncClient(scene.address.url, scene.address.api_key) as other:
            created = await other.create_account(account, operations_team_name=TEAM, book="b", line=1)
            listed = [it.import_supplier async for it in other.list_import_suppliers()]
            status = await other.get_account_status(SUPPLIER, "CB-0")
            return created.service_account_number, listed, status.status

    number, listed, status = asyncio.run(create())
    assert client.create_account(account, operations_team_name=TEAM).service_account_number == number
    assert [it.import_supplier for it in client.list_import_suppliers()] == listed
    assert client.get_account_status(SUPPLIER, "CB-0").status == status == "COMPLETED"


def test_many_threads_obtain_one_token_and_renew_it_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "migration_service_client")

    def obtained() -> int:
        return sum(record.getMessage().startswith("obtain_token") for record in caplog.records)

    with Client(scene.address.url, scene.address.api_key) as client, ThreadPoolExecutor(16) as pool:
        before = {it.session_id for it in client.list_sessions()}
        list(pool.map(lambda _: list(client.list_import_suppliers()), range(32)))
        assert obtained() == 1
        newest = next(client.list_sessions())
        assert newest.session_id in before
        client.end_session(newest.session_id)
        # The next request is answered 401, and so are those that other threads send.
        scene_answers = list(pool.map(lambda _: len(list(client.list_import_suppliers())), range(32)))
        assert set(scene_answers) == {len(list(client.list_import_suppliers()))}
        # Once with the refresh token of the ended session, which is refused, and once with the key.
        assert obtained() in (1, 3)


def test_an_accepted_request_is_followed_to_its_outcome(client: Client) -> None:
    account = numbered_accounts(1, "CF-")[0]
    client.stage_account(account)
    created = client.process_account(
        external_account_number="CF-0",
        import_supplier_code=SUPPLIER,
        operations_team_name=TEAM,
        prefer="respond-async",
        idempotency_key=idempotency_key("book", 1, account),
    )
    assert client.get_account(SUPPLIER, "CF-0").created is not None
    assert created.service_account_number.startswith("A-")


@pytest.mark.parametrize("kind", ["path", "file", "generator", "asynchronous generator"])
def test_a_book_is_sent_from_whatever_has_it(scene: Scene, client: Client, kind: str, tmp_path: Path) -> None:
    sent = numbered_accounts(30, f"CU-{kind[:3]}{len(kind)}-")
    path = tmp_path / "book.ndjson"
    path.write_text("".join(json.dumps(account, default=str) + "\n" for account in sent))
    seen: list[int] = []

    async def generated() -> AsyncIterator[dict[str, Any]]:
        for account in sent:
            yield account

    async def upload() -> str:
        async with AsyncClient(scene.address.url, scene.address.api_key) as other:
            started = await other.start_batch(
                generated(), import_supplier=SUPPLIER, mode="stage", progress=lambda it, _: seen.append(it)
            )
            return started.batch_id

    if kind == "asynchronous generator":
        batch_id = asyncio.run(upload())
    else:
        with path.open("rb") as file:
            source: Any = {"path": path, "file": file, "generator": iter(sent)}[kind]
            batch_id = client.start_batch(
                source, import_supplier=SUPPLIER, mode="stage", progress=lambda it, _: seen.append(it)
            ).batch_id
    batch = client.wait_for_batch(batch_id, seconds=0.2)
    assert (batch.state, batch.lines, batch.counts["STAGED"]) == ("COMPLETED", 30, 30)
    assert seen == sorted(seen)
    assert seen[-1] == batch.file_bytes
    results = list(client.get_batch_results(batch_id))
    assert [it.line_number for it in results] == list(range(1, 31))


def test_logs_have_no_secrets_and_no_numbers_of_accounts(
    scene: Scene, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    account = numbered_accounts(1, "CL-SECRET-")[0]
    client.create_account(account, operations_team_name=TEAM, book="b", line=1)
    client.get_account_status(SUPPLIER, "CL-SECRET-0")
    with pytest.raises(AccountNotFound) as raised:
        client.get_account(SUPPLIER, "CL-SECRET-9")
    assert "get_account_status was answered 200" in caplog.text
    for text in (caplog.text, str(raised.value), repr(client)):
        assert "CL-SECRET" not in text
        assert scene.address.api_key not in text

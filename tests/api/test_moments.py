"""Every time in an answer has the form YYYY-MM-DDTHH:MM:SSZ (section 2.1)."""

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from migration_service.cli import main
from migration_service.config import Settings
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.imported_account import ImportedAccount

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_ANY_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:[^\",\r\n]*", re.ASCII)


def _assert_moments(text: str) -> None:
    found = _ANY_MOMENT.findall(text)
    assert found
    assert [moment for moment in found if not _MOMENT.fullmatch(moment)] == []


@pytest.mark.parametrize("kind", ["all", "imported"])
@pytest.mark.parametrize("query", ["", "?limit=1"])
def test_times_of_lists_have_the_documented_format(account: ImportedAccount, kind: str, query: str) -> None:
    code = account.supplier.code
    _assert_moments(account.supplier.get(f"/{kind}-account-import-processes/{code}/{query}").text)


def test_times_of_batches_have_the_documented_format(
    account: ImportedAccount, worker_resources: WorkerResources
) -> None:
    batches = BatchClient(account.supplier, worker_resources)
    batch_id = batches.start(account.supplier.accounts(), mode="stage")
    batches.work()
    for path in (f"/batches/{batch_id}/", "/batches/"):
        _assert_moments(account.supplier.get(path).text)


def test_times_of_the_id_map_have_the_documented_format(account: ImportedAccount) -> None:
    _assert_moments(account.supplier.get(f"/reconciliation/{account.supplier.code}/id-map/").text)


def test_times_of_notes_have_the_documented_format(account: ImportedAccount) -> None:
    _assert_moments(account.post_notes({"body": "a"}).text)


@pytest.mark.parametrize(
    "command",
    [["accounts", "show"], ["suppliers", "list"], ["organisations", "list"], ["teams", "list"]],
)
def test_times_of_commands_have_the_documented_format(
    account: ImportedAccount, migrated: Settings, command: list[str]
) -> None:
    account.post_notes({"body": "a"})
    environment: dict[str, Any] = {
        "DATABASE_URL": migrated.database_url,
        "REDIS_URL": migrated.redis_url,
        "MIGRATION_SERVICE_SECRET_KEY": migrated.secret_key,
        "MIGRATION_SERVICE_HOME": "/nonexistent",
    }
    names = [account.supplier.code, account.number] if command[0] == "accounts" else []
    result = CliRunner().invoke(main, [*command, *names, "--json"], env=environment)
    assert [json.loads(line) for line in result.stdout.splitlines()]
    _assert_moments(result.stdout)

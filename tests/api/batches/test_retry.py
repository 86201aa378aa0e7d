"""Retrying those failed lines only that have an error of a code at a path."""

from unittest.mock import patch

import pytest
from flask import Flask

from migration_service.tasks.names import RUN_CHUNK
from support.batch_client import BatchClient, counts
from support.messages import noted_messages


@pytest.fixture
def batch_id(batches: BatchClient) -> str:
    """A batch of one good line, two bad numbers at different paths, and a line without its names."""
    accounts = batches.supplier.accounts(4)
    accounts[1]["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    accounts[2]["customers"] = [{"family_name": "Jansen", "mobile": "not a number"}]
    accounts[3]["customers"] = [{"family_name": 5}]
    report = batches.run(accounts)
    assert counts(report) == {"IMPORTED": 1, "FAILED": 3}
    return str(report["batch_id"])


def test_a_retry_is_answered_again_under_its_key_and_announced_once(
    batches: BatchClient, batch_id: str
) -> None:
    path, headers = f"/batches/{batch_id}/retry-failed/?all=true", {"Idempotency-Key": "again"}
    # The process is killed as soon as the view has returned.
    killed = patch.object(Flask, "make_response", side_effect=KeyboardInterrupt)
    with noted_messages() as messages, killed, pytest.raises(KeyboardInterrupt):
        batches.supplier.post(path, headers=headers)
    assert [task for task, _ in messages] == [RUN_CHUNK]
    assert batches.supplier.post(path, headers=headers).json["retried"] == 3  # type: ignore[index]


def test_only_the_lines_that_the_filter_shows_are_retried(batches: BatchClient, batch_id: str) -> None:
    query = "code=invalid_phone_number&path=customers.0.landline"
    answer = batches.supplier.post(f"/batches/{batch_id}/retry-failed/?all=true&{query}")
    assert (answer.json["retried"], answer.json["left"]) == (1, 2)  # type: ignore[index]
    assert [line["line_number"] for line in batches.results(batch_id, "?status=PENDING")] == [2]

"""What a reconciliation and acknowledgements are written in, however many there are."""

import json
from typing import Any
from unittest.mock import patch

import pytest

from support.batch_client import BatchClient

pytestmark = pytest.mark.usefixtures("neighbour")


def test_a_reconciliation_and_acknowledgements_are_the_same_in_pieces_of_any_size(
    batches: BatchClient,
) -> None:
    batch_id = batches.run([b"{}", b"{", b"[]", b"7"])["batch_id"]
    with patch("migration_service.services.reconciliation.verdict.WRITTEN", 1):
        assert [it["line_number"] for it in batches.supplier.reconcile()["open"]] == [1, 2, 3, 4]
    path = f"/reconciliation/{batches.supplier.code}/acknowledgements/"
    assert batches.supplier.post(path, {"batch": batch_id, "reason": "Closed."}).status_code == 201
    found: Any = batches.supplier.get(path).json
    assert len(found) == 4
    for piece in (1, 3, 4, 5):
        with patch("migration_service.services.reconciliation.acknowledgements.PIECE", piece):
            answer = batches.supplier.get(path, buffered=False)
            pieces = list(answer.iter_encoded())
        assert (json.loads(b"".join(pieces)), len(pieces)) == (found, -(-4 // piece) + 1)

"""The answer of a reconciliation: the verdict with everything that is open or differs, as JSON."""

from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.moments import write_moment
from migration_payloads.schemas.json import encode_json, finite
from migration_service.models import Comparison
from migration_service.services.reconciliation import comparisons
from migration_service.services.reconciliation.differences import NOT_COMPARED
from migration_service.services.reconciliation.submitted import find_open
from migration_service.services.reconciliation.verdict import Verdict, list_problems
from migration_service.services.setup.suppliers import KnownSupplier

#: The number of entries written together.
WRITTEN = 500


def describe_progress(session: Session, comparison_id: UUID) -> dict[str, Any] | None:
    """Return how far a comparison is, as values for JSON, or None if it has ended."""
    comparison = session.get(Comparison, comparison_id)
    if comparison is None or comparison.finished_at is not None:
        return None
    return {
        "comparison": {
            "id": comparison.id,
            "started_at": write_moment(comparison.started_at),
            "items": comparison.items,
            "done": comparison.done,
            "time_left": comparisons.estimate_time_left(session, comparison),
        }
    }


def stream_reconciliation(
    sessions: sessionmaker[Session], supplier: KnownSupplier, verdict: Verdict, *, batch_id: UUID | None
) -> Iterator[bytes]:
    """Yield the whole reconciliation as one JSON object, in pieces."""
    code = encode_json(supplier.code)
    yield b'{"import_supplier":%b,"sent":%b,"open":[' % (code, encode_json(verdict.sent))
    yield from _join(find_open(sessions, supplier.id, batch_id=batch_id))
    yield b'],"book":%b,"differences":[' % encode_json(finite(verdict.book))
    with sessions.begin() as session:
        comparison = comparisons.find_kept(session, supplier.id, batch_id)
    if comparison is not None:
        yield from _join(comparisons.stream_differing(sessions, comparison))
    yield b"]," + encode_json(finite(describe_verdict(verdict)))[1:]


def describe_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return everything but the individual accounts and lines, as values for JSON."""
    totals = verdict.totals
    return {
        "totals": totals.list_measures(),
        "compared": totals.compared,
        "not_comparable": totals.not_comparable,
        "not_comparable_lines": totals.not_comparable_lines,
        "lines_not_comparable": [
            {"batch_id": batch, "line_number": line} for batch, line in totals.named_lines
        ],
        "not_compared": NOT_COMPARED,
        "differing": verdict.differing,
        "old_figures": totals.figures.list_counts(),
        "compared_from": verdict.compared_from and write_moment(verdict.compared_from),
        "compared_at": verdict.compared_at and write_moment(verdict.compared_at),
        "created_since": verdict.created_since,
        "undone_since": verdict.undone_since,
        "problems": list_problems(verdict.problems),
        "created_clean": verdict.is_created_clean,
        "complete": verdict.sent.is_complete,
        "clean": verdict.is_clean,
    }


def _join(items: Iterator[Any]) -> Iterator[bytes]:
    comma = b""
    while piece := list(islice(items, WRITTEN)):
        yield comma + b",".join(encode_json(finite(item)) for item in piece)
        comma = b","

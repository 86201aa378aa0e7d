"""What is stored of what became of lines."""

from sqlalchemy.orm import Session

from migration_service.errors import ErrorItem
from migration_service.services.batches.work.chunks import ChunkKey
from migration_service.services.batches.work.lines import LineResult, write_outcomes
from migration_service.states import LineStatus
from support.factories import Customer
from unit.services.batches.batch_rows import add_lines, lines_of, make_batch


def test_each_line_gets_its_own_outcome_without_what_cannot_be_stored(
    session: Session, customer: Customer
) -> None:
    batch, another = (make_batch(session, customer) for _ in range(2))
    for it in (batch, another):
        add_lines(session, it, *["PENDING"] * 3, external_account_number="as sent")
    hostile = "a\0b\ud800c"
    write_outcomes(
        session,
        batch.id,
        [
            LineResult(2, LineStatus.IMPORTED, "2", service_account_number="A-2"),
            LineResult(
                1,
                LineStatus.FAILED,
                hostile,
                errors=[ErrorItem("invalid", hostile, hostile), ErrorItem("required", "D")],
                warnings=[ErrorItem("unknown_field", "W", hostile)],
            ),
        ],
    )

    def found(batch_id: ChunkKey) -> list[tuple[object, ...]]:
        return [
            (it.status, it.external_account_number, it.service_account_number, it.errors, it.warnings)
            for it in lines_of(session, batch_id)
        ]

    stored = "a\N{REPLACEMENT CHARACTER}b?c"
    untouched = ("PENDING", "as sent", None, None, None)
    assert found(ChunkKey(batch.id, 1)) == [
        (
            "FAILED",
            stored,
            None,
            [
                {"code": "invalid", "detail": stored, "attr": stored},
                {"code": "required", "detail": "D", "attr": None},
            ],
            [{"code": "unknown_field", "detail": "W", "attr": stored}],
        ),
        ("IMPORTED", "2", "A-2", None, None),
        untouched,
    ]
    assert found(ChunkKey(another.id, 1)) == [untouched] * 3

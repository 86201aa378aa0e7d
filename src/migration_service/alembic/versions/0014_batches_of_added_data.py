"""Batches of added data: kinds, chunks by account, lines that wait, and the rate of vendors

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_STATUSES = "'PENDING', 'VALID', 'STAGED', 'IMPORTED', 'WOULD_IMPORT', 'ALREADY_IMPORTED', 'SKIPPED', "
_ADDED = "'ADDED', 'WOULD_ADD', 'ALREADY_ADDED', 'DEFERRED', "


def upgrade() -> None:
    op.add_column("batch", sa.Column("kind", sa.Text(), server_default="accounts", nullable=False))
    op.add_column(
        "batch",
        sa.Column("options", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False),
    )
    op.create_check_constraint(
        "kind", "batch", "kind IN ('accounts', 'notes', 'transactions', 'statements', 'payment-instructions')"
    )
    op.drop_constraint(op.f("ck_batch_team_to_create"), "batch")
    op.create_check_constraint(
        "team_to_create",
        "batch",
        "operations_team_id IS NOT NULL OR mode IN ('validate', 'stage') OR kind <> 'accounts'",
    )
    op.add_column("batch_line", sa.Column("chunk_line", sa.BigInteger(), nullable=True))
    op.drop_constraint(op.f("ck_batch_line_status"), "batch_line")
    op.create_check_constraint("status", "batch_line", f"status IN ({_STATUSES}{_ADDED}'FAILED')")
    op.create_index(
        "ix_batch_line_chunk",
        "batch_line",
        ["batch_id", "chunk_line", "line_number"],
        postgresql_where=sa.text("chunk_line IS NOT NULL"),
    )
    op.create_index(
        "ix_batch_line_account",
        "batch_line",
        ["batch_id", "external_account_number"],
        postgresql_where=sa.text("chunk_line IS NULL"),
    )
    op.add_column(
        "batch_chunk",
        sa.Column("by_account", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.add_column("batch_chunk", sa.Column("not_before", sa.DateTime(timezone=True), nullable=True))
    op.add_column("batch_chunk", sa.Column("deferred_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "payment_vendor",
        sa.Column("calls_per_second", sa.Numeric(), server_default=sa.text("10"), nullable=False),
    )
    op.add_column("payment_vendor", sa.Column("next_call_at", sa.DateTime(timezone=True), nullable=True))
    op.create_check_constraint("calls_per_second", "payment_vendor", "calls_per_second > 0")


def downgrade() -> None:
    op.drop_column("payment_vendor", "next_call_at")
    op.drop_column("payment_vendor", "calls_per_second")
    for column in ("deferred_since", "not_before", "by_account"):
        op.drop_column("batch_chunk", column)
    op.drop_index("ix_batch_line_account", table_name="batch_line")
    op.drop_index("ix_batch_line_chunk", table_name="batch_line")
    op.execute("DELETE FROM batch_line WHERE batch_id IN (SELECT id FROM batch WHERE kind <> 'accounts')")
    op.execute("DELETE FROM batch WHERE kind <> 'accounts'")
    op.drop_constraint(op.f("ck_batch_line_status"), "batch_line")
    op.create_check_constraint("status", "batch_line", f"status IN ({_STATUSES}'FAILED')")
    op.drop_column("batch_line", "chunk_line")
    op.drop_constraint(op.f("ck_batch_team_to_create"), "batch")
    op.create_check_constraint(
        "team_to_create", "batch", "operations_team_id IS NOT NULL OR mode IN ('validate', 'stage')"
    )
    op.drop_constraint(op.f("ck_batch_kind"), "batch")
    for column in ("options", "kind"):
        op.drop_column("batch", column)

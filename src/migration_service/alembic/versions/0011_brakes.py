"""Brakes of batches: what pauses them, and what is counted for it

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batch", sa.Column("brake", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.add_column("batch", sa.Column("brake_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("batch_chunk", sa.Column("done", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column(
        "batch_chunk",
        sa.Column("failures", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False),
    )
    # A hundred lines have one row here.
    op.create_index(
        "ix_batch_chunk_worked", "batch_chunk", ["batch_id", "worked_at"], unique=False, if_not_exists=True
    )


def downgrade() -> None:
    op.drop_index("ix_batch_chunk_worked", table_name="batch_chunk")
    op.drop_column("batch_chunk", "failures")
    op.drop_column("batch_chunk", "done")
    op.drop_column("batch", "brake_since")
    op.drop_column("batch", "brake")

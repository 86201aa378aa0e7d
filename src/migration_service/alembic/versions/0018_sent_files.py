"""The hash, the size and the totals of the file of a batch, and the control totals of its supplier

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batch", sa.Column("file_sha256", sa.LargeBinary(), nullable=True))
    op.add_column("batch", sa.Column("file_bytes", sa.BigInteger(), nullable=True))
    op.add_column("batch", sa.Column("file_totals", postgresql.JSONB(), nullable=True))
    op.add_column("batch", sa.Column("control_totals", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    for column in ("control_totals", "file_totals", "file_bytes", "file_sha256"):
        op.drop_column("batch", column)

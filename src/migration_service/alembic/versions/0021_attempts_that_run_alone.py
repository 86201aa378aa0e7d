"""Attempts that run alone are marked, and wait for their turn instead of for a message each

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. It is false for what old processes begin, whose messages workers still take."""
    op.add_column(
        "account_import_process",
        sa.Column("runs_alone", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )


def downgrade() -> None:
    """Give what waits for its turn to the sweep of the version before, and remove the column."""
    op.execute(
        "UPDATE account_import_process SET dispatched_at = now(), tries = tries + 1 "
        "WHERE state = 'IN_PROGRESS' AND runs_alone AND dispatched_at IS NULL"
    )
    op.drop_column("account_import_process", "runs_alone")

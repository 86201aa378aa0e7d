"""When a batch last began to run, and how long the workers of its chunks waited for a processor

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batch", sa.Column("runs_since", sa.DateTime(timezone=True)))
    op.add_column("batch_chunk", sa.Column("processor_wait", sa.Float()))


def downgrade() -> None:
    op.drop_column("batch_chunk", "processor_wait")
    op.drop_column("batch", "runs_since")

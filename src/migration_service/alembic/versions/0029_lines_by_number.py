"""Every line of a batch by its account number, also of added data

On a large table, create the index CONCURRENTLY beforehand.

Revision ID: 0029
Revises: 0028
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_COLUMNS = ["batch_id", "external_account_number"]


def upgrade() -> None:
    op.create_index("ix_batch_line_number", "batch_line", _COLUMNS, if_not_exists=True)
    op.drop_index("ix_batch_line_account", table_name="batch_line")


def downgrade() -> None:
    where = sa.text("chunk_line IS NULL")
    op.create_index("ix_batch_line_account", "batch_line", _COLUMNS, postgresql_where=where)
    op.drop_index("ix_batch_line_number", table_name="batch_line")

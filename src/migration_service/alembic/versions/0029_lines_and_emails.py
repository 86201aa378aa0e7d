"""Lines by account number, also of added data, and customer e-mails by organisation

On a large table, create the index of lines CONCURRENTLY beforehand.

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
_PENDING = sa.text("state = 'PENDING'")


def upgrade() -> None:
    op.create_index("ix_batch_line_number", "batch_line", _COLUMNS, if_not_exists=True)
    op.drop_index("ix_batch_line_account", table_name="batch_line")
    column = sa.Column("organisation_id", sa.BigInteger(), server_default="0", nullable=False)
    op.add_column("customer_email", column)
    _make_due("organisation_id", "next_try_at")


def downgrade() -> None:
    _make_due("next_try_at")
    op.drop_column("customer_email", "organisation_id")
    where = sa.text("chunk_line IS NULL")
    op.create_index("ix_batch_line_account", "batch_line", _COLUMNS, postgresql_where=where)
    op.drop_index("ix_batch_line_number", table_name="batch_line")


def _make_due(*columns: str) -> None:
    op.drop_index("ix_customer_email_due", table_name="customer_email")
    op.create_index("ix_customer_email_due", "customer_email", columns, postgresql_where=_PENDING)

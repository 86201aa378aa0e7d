"""The order of an account's versions, and which newer version was not taken

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)
_JSON = postgresql.JSONB(astext_type=sa.Text())


def upgrade() -> None:
    op.add_column("account_import_process", sa.Column("extracted_at", _MOMENT, nullable=True))
    op.add_column("account_import_process", sa.Column("refused_at", _MOMENT, nullable=True))
    op.add_column("account_import_process", sa.Column("refused_errors", _JSON, nullable=True))
    op.add_column("account_import_process", sa.Column("refused_batch_id", sa.Uuid(), nullable=True))
    op.add_column("account_import_process", sa.Column("refused_line_number", sa.BigInteger(), nullable=True))
    op.add_column("batch", sa.Column("extracted_at", _MOMENT, nullable=True))
    op.add_column("batch", sa.Column("older_versions", sa.BigInteger(), nullable=True))
    op.add_column("batch_line", sa.Column("staging_result", sa.Text(), nullable=True))
    op.add_column("batch_chunk", sa.Column("staging_counts", _JSON, server_default="{}", nullable=False))
    op.add_column(
        "wave_plan", sa.Column("older_versions", sa.BigInteger(), server_default="0", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("wave_plan", "older_versions")
    op.drop_column("batch_chunk", "staging_counts")
    op.drop_column("batch_line", "staging_result")
    op.drop_column("batch", "older_versions")
    op.drop_column("batch", "extracted_at")
    op.drop_column("account_import_process", "refused_line_number")
    op.drop_column("account_import_process", "refused_batch_id")
    op.drop_column("account_import_process", "refused_errors")
    op.drop_column("account_import_process", "refused_at")
    op.drop_column("account_import_process", "extracted_at")

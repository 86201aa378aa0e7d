"""Marks of accounts that are not staged and are to be skipped

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "skip_mark",
        sa.Column("import_supplier_id", sa.BigInteger(), nullable=False),
        sa.Column("external_account_number", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["import_supplier_id"], ["import_supplier.id"], name=op.f("fk_skip_mark_import_supplier_id")
        ),
        sa.PrimaryKeyConstraint("import_supplier_id", "external_account_number", name=op.f("pk_skip_mark")),
    )


def downgrade() -> None:
    op.drop_table("skip_mark")

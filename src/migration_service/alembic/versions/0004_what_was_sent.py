"""What was sent: names, profiles and pace of batches, and acknowledged lines that never became accounts

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batch", sa.Column("name", sa.Text(), nullable=True))
    op.add_column("batch", sa.Column("file_name", sa.Text(), nullable=True))
    op.add_column("batch", sa.Column("profile", sa.Text(), nullable=True))
    op.add_column("batch", sa.Column("validated_under", sa.Text(), nullable=True))
    op.add_column("batch_chunk", sa.Column("worked_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("batch_chunk", sa.Column("throttled_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("batch_chunk", sa.Column("refused", sa.BigInteger(), server_default="0", nullable=False))
    op.create_check_constraint("profile", "batch", "profile IN ('lenient', 'strict')")
    op.create_table(
        "acknowledgement",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("import_supplier_id", sa.BigInteger(), nullable=False),
        sa.Column("external_account_number", sa.Text(), nullable=True),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("line_number", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("acknowledged_by", sa.Text(), nullable=False),
        sa.Column(
            "acknowledged_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.CheckConstraint(
            "external_account_number IS NOT NULL OR (batch_id IS NOT NULL AND line_number IS NOT NULL)",
            name=op.f("ck_acknowledgement_account_or_line"),
        ),
        sa.ForeignKeyConstraint(
            ["import_supplier_id"],
            ["import_supplier.id"],
            name=op.f("fk_acknowledgement_import_supplier_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_acknowledgement")),
    )
    op.create_index(op.f("ix_acknowledgement_import_supplier_id"), "acknowledgement", ["import_supplier_id"])


def downgrade() -> None:
    op.drop_table("acknowledgement")
    op.drop_constraint(op.f("ck_batch_profile"), "batch")
    for column in ("refused", "throttled_at", "worked_at"):
        op.drop_column("batch_chunk", column)
    for column in ("validated_under", "profile", "file_name", "name"):
        op.drop_column("batch", column)

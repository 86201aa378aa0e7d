"""The answers that are kept for requests with an Idempotency-Key

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "idempotency_key",
        sa.Column("organisation_id", sa.BigInteger(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("claim_id", sa.Uuid(), nullable=False),
        sa.Column("leased_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=True),
        sa.Column("headers", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("import_supplier", sa.Text(), nullable=True),
        sa.Column("external_account_number", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["organisation_id"], ["organisation.id"], name=op.f("fk_idempotency_key_organisation_id")
        ),
        sa.PrimaryKeyConstraint("organisation_id", "endpoint", "key", name=op.f("pk_idempotency_key")),
    )
    op.create_index("ix_idempotency_key_created_at", "idempotency_key", ["created_at"], unique=False)


def downgrade() -> None:
    op.drop_table("idempotency_key")

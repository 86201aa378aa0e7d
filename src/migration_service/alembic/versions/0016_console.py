"""Sessions of operators in the console, and the forms that they sent

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_NOW = sa.text("now()")


def upgrade() -> None:
    op.create_table(
        "operator_session",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("operator_id", sa.BigInteger(), nullable=False),
        sa.Column("token_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_reason", sa.Text(), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["operator_id"], ["operator.id"], name=op.f("fk_operator_session_operator_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operator_session")),
        sa.UniqueConstraint("token_sha256", name=op.f("uq_operator_session_token_sha256")),
    )
    op.create_index(op.f("ix_operator_session_operator_id"), "operator_session", ["operator_id"])
    op.create_index(op.f("ix_operator_session_created_at"), "operator_session", ["created_at"])
    op.create_table(
        "operator_form",
        sa.Column("token", sa.Uuid(), nullable=False),
        sa.Column("operator_session_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["operator_session_id"],
            ["operator_session.id"],
            name=op.f("fk_operator_form_operator_session_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("token", name=op.f("pk_operator_form")),
    )
    op.create_index(op.f("ix_operator_form_operator_session_id"), "operator_form", ["operator_session_id"])


def downgrade() -> None:
    op.drop_table("operator_form")
    op.drop_table("operator_session")
